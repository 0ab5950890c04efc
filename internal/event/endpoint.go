package event

import (
	"muster/internal/fault"
	"muster/internal/id"
)

// EndpointOpened says that the node's UDP port is bound.
type EndpointOpened struct {
	Node    id.NodeID `json:"node"`
	Address string    `json:"address"`
}

// SocketBufferRefused says that the system gives the UDP socket a smaller
// buffer than a fast sender needs; packets may be lost under load.
type SocketBufferRefused struct {
	Asked int    `json:"asked"` // bytes
	Got   int    `json:"got"`   // bytes
	Hint  string `json:"hint"`  // what a person can do
}

// EndpointFailed says that the UDP socket can no longer be used.
type EndpointFailed struct {
	Fault *fault.Fault `json:"fault"`
}

// PeerConnected says that a connection with a peer stands, both identities proven.
type PeerConnected struct {
	Peer     id.NodeID `json:"peer"`
	Protocol string    `json:"protocol"`
	Address  string    `json:"address"`
	Dialled  bool      `json:"dialled"` // from here
}

// PeerDisconnected says that a connection with a peer has ended.
type PeerDisconnected struct {
	Peer     id.NodeID    `json:"peer"`
	Protocol string       `json:"protocol"`
	Address  string       `json:"address"`
	Fault    *fault.Fault `json:"fault"` // why
}

// StrangerRefused says that somebody who is not permitted tried to connect.
type StrangerRefused struct {
	Peer     id.NodeID `json:"peer"`     // none where no usable certificate was shown
	Protocol string    `json:"protocol"` // "" where none was agreed on
	Address  string    `json:"address"`
	Reason   string    `json:"reason"`
	Untold   int       `json:"untold"` // further refusals since the last event of this kind
}

// Name implements Event.
func (EndpointOpened) Name() string { return "endpoint.opened" }

// Name implements Event.
func (SocketBufferRefused) Name() string { return "endpoint.buffer_refused" }

// Name implements Event.
func (EndpointFailed) Name() string { return "endpoint.failed" }

// Name implements Event.
func (PeerConnected) Name() string { return "endpoint.peer_connected" }

// Name implements Event.
func (PeerDisconnected) Name() string { return "endpoint.peer_disconnected" }

// Name implements Event.
func (StrangerRefused) Name() string { return "endpoint.stranger_refused" }
