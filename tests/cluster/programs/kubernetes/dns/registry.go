// SPDX-FileCopyrightText: The Seatrial authors
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
)

const suffix = ".svc.cluster.local."

// registry knows the services of a cluster and the pods behind them.
type registry struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
}

// lookup says which addresses a name has, and whether there is such a name.
func (r *registry) lookup(name string) ([]netip.Addr, bool) {
	name = strings.ToLower(name)
	if !strings.HasSuffix(name, suffix) {
		return nil, false
	}
	parts := strings.Split(strings.TrimSuffix(name, suffix), ".")
	if len(parts) < 2 || len(parts) > 3 {
		return nil, false
	}
	host := ""
	if len(parts) == 3 {
		host, parts = parts[0], parts[1:]
	}
	service, err := r.services.Services(parts[1]).Get(parts[0])
	if err != nil {
		return nil, false
	}
	if host == "" && service.Spec.ClusterIP != corev1.ClusterIPNone {
		address, err := netip.ParseAddr(service.Spec.ClusterIP)
		return []netip.Addr{address}, err == nil
	}
	found := r.pods(service, host)
	return found, len(found) > 0
}

// pods lists the addresses behind a service, or behind one host name of it.
func (r *registry) pods(service *corev1.Service, host string) []netip.Addr {
	of := labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name})
	slices, err := r.slices.EndpointSlices(service.Namespace).List(of)
	if err != nil {
		return nil
	}
	var found []netip.Addr
	for _, slice := range slices {
		for _, endpoint := range slice.Endpoints {
			ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
			if !ready && !service.Spec.PublishNotReadyAddresses {
				continue
			}
			if host != "" && (endpoint.Hostname == nil || *endpoint.Hostname != host) {
				continue
			}
			for _, text := range endpoint.Addresses {
				if address, err := netip.ParseAddr(text); err == nil {
					found = append(found, address)
				}
			}
		}
	}
	return found
}
