package node

import (
	"net"
	"net/netip"
	"strconv"

	"muster/internal/machine"
)

// ownAddress is where the node reaches itself.
func (nw *network) ownAddress() string {
	at := nw.endpoint.Addr()
	if !at.Addr().IsUnspecified() {
		return at.String()
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()).String()
}

// addresses are those under which others may reach the node: as told, or all of
// this machine's where it listens on all.
func (nw *network) addresses() []string {
	if told := nw.n.cfg.Advertise; len(told) > 0 {
		return told
	}
	at := nw.endpoint.Addr()
	if !at.Addr().IsUnspecified() {
		return []string{at.String()}
	}
	var public, loopback []string
	for _, ip := range machine.Addresses() {
		text := net.JoinHostPort(ip.String(), strconv.Itoa(int(at.Port())))
		if ip.IsLoopback() {
			loopback = append(loopback, text)
			continue
		}
		public = append(public, text)
	}
	if n := orchestratorHost(nw.n.cfg.OrchestratorAddr); n.IsLoopback() {
		public, loopback = loopback, public // what it listens on may not reach the others
	}
	public = append(public, loopback...)
	return public[:min(len(public), mostAddresses)]
}

// orchestratorHost is the address of host:port, none where it is a name.
func orchestratorHost(address string) netip.Addr {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}
