// SPDX-FileCopyrightText: The Seatrial authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net"

	"golang.org/x/net/dns/dnsmessage"
)

// A second: pods that start again get new addresses.
const lifetime = 1

// serve answers questions until the socket is closed.
func serve(socket net.PacketConn, names *registry) error {
	buffer := make([]byte, 4096)
	for {
		size, from, err := socket.ReadFrom(buffer)
		if err != nil {
			return err
		}
		if reply := answer(buffer[:size], names); reply != nil {
			// Who asked asks again when the answer is lost.
			_, _ = socket.WriteTo(reply, from)
		}
	}
}

// answer is the reply to one question; nothing to what is no question.
func answer(request []byte, names *registry) []byte {
	var parser dnsmessage.Parser
	header, err := parser.Start(request)
	if err != nil || header.Response {
		return nil
	}
	question, err := parser.Question()
	if err != nil {
		return nil
	}
	addresses, known := names.lookup(question.Name.String())
	reply := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID:                 header.ID,
			Response:           true,
			Authoritative:      true,
			RecursionDesired:   header.RecursionDesired,
			RecursionAvailable: true,
		},
		Questions: []dnsmessage.Question{question},
	}
	if !known {
		reply.RCode = dnsmessage.RCodeNameError
	}
	for _, address := range addresses {
		if question.Type == dnsmessage.TypeA && address.Is4() {
			reply.Answers = append(reply.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{
					Name: question.Name, Class: dnsmessage.ClassINET, TTL: lifetime,
				},
				Body: &dnsmessage.AResource{A: address.As4()},
			})
		}
	}
	packed, err := reply.Pack()
	if err != nil {
		return nil
	}
	return packed
}
