// SPDX-FileCopyrightText: The Seatrial authors
// SPDX-License-Identifier: Apache-2.0

// Package dns answers for the names of services, as the DNS of a cluster does.
package dns

import (
	"context"
	"net"

	"github.com/spf13/cobra"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Command listens until it is ended.
func Command() *cobra.Command {
	var kubeconfig, listen string
	command := &cobra.Command{
		Use:  "cluster-dns",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command.Context(), kubeconfig, listen)
		},
	}
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "whom to ask for services")
	command.Flags().StringVar(&listen, "listen", "127.0.0.1:53", "address and port")
	return command
}

func run(ctx context.Context, kubeconfig, listen string) error {
	if ctx == nil {
		ctx = context.Background()
	}
	access, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	// What was last heard is answered while the API server is away, as CoreDNS does.
	factory := informers.NewSharedInformerFactory(client, 0)
	names := &registry{
		services: factory.Core().V1().Services().Lister(),
		slices:   factory.Discovery().V1().EndpointSlices().Lister(),
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	socket, err := net.ListenPacket("udp", listen)
	if err != nil {
		return err
	}
	defer socket.Close()
	return serve(socket, names)
}
