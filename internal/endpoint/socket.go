package endpoint

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"

	"muster/internal/fault"
)

// wantedBuffer is what the library asks of the system for each direction of
// the socket: a fast sender fills less within one turn of the reader.
const wantedBuffer = 7_340_032

const bufferHint = "as root: sysctl -w net.core.rmem_max=7500000 net.core.wmem_max=7500000"

// hushLibrary keeps the library from printing its own warning of small buffers to
// the process's stderr: the endpoint tells an event.
var hushLibrary = sync.OnceFunc(func() { _ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") })

// bind opens the UDP socket. It is handed to the library as it is: wrapped, it
// would lose segmentation offload.
func bind(listen string) (*net.UDPConn, error) {
	hushLibrary()
	host, port, flaw := splitAddress(listen, 0)
	if flaw != "" {
		return nil, fault.New(fault.EndpointAddressInvalid, component, "address", listen, "what", flaw)
	}
	addr, err := net.ResolveUDPAddr("udp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, fault.New(fault.EndpointAddressInvalid, component, "address", listen, "what", "its host has no address").Because(err)
	}
	socket, err := net.ListenUDP("udp", addr)
	switch {
	case err == nil:
		return socket, nil
	case errors.Is(err, addressInUse):
		return nil, fault.New(fault.EndpointPortTaken, component, "address", listen).Because(err)
	default:
		return nil, fault.New(fault.EndpointBindRefused, component, "address", listen).Because(err)
	}
}

// splitAddress reads host:port; flaw says in words what is wrong with it.
func splitAddress(text string, leastPort int) (host string, port int, flaw string) {
	host, service, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, "it must be host:port"
	}
	port, err = strconv.Atoi(service)
	if err != nil || port < leastPort || port > 65535 || service != strconv.Itoa(port) {
		return "", 0, "its port must be a number from " + strconv.Itoa(leastPort) + " to 65535"
	}
	if leastPort > 0 && host == "" {
		return "", 0, "its host is missing"
	}
	return host, port, ""
}

// addrPort is the address of a UDP socket or packet, IPv4 as IPv4.
func addrPort(a net.Addr) netip.AddrPort {
	if u, ok := a.(*net.UDPAddr); ok {
		return unmapped(u.AddrPort())
	}
	return netip.AddrPort{}
}

func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// receiveBuffer is the size the system has given, wantedBuffer where it
// cannot be asked.
func receiveBuffer(socket *net.UDPConn) int {
	raw, err := socket.SyscallConn()
	if err != nil {
		return wantedBuffer
	}
	size := wantedBuffer
	_ = raw.Control(func(fd uintptr) {
		if n, err := bufferOf(fd); err == nil {
			size = n
		}
	})
	return size
}

// closing joins what went wrong with what went wrong in tidying up.
func closing(err, other error) error {
	if other == nil || errors.Is(other, net.ErrClosed) {
		return err
	}
	return errors.Join(err, other)
}
