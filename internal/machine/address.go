package machine

import (
	"net"
	"net/netip"
	"slices"
)

// Addresses are those of all interfaces that are of use to another
// machine, and the loopback's for nodes on this one.
func Addresses() []netip.Addr {
	var found []netip.Addr
	all, err := net.InterfaceAddrs()
	if err != nil {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || prefix.Addr().IsLinkLocalUnicast() {
			continue
		}
		found = append(found, prefix.Addr().Unmap())
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { // IPv4 first: it is more often routed
		switch {
		case a.Is4() == b.Is4():
			return 0
		case a.Is4():
			return -1
		default:
			return 1
		}
	})
	return found
}
