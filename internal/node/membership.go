package node

import (
	"context"
	"maps"
	"slices"
	"time"

	"muster/internal/core/boot"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/member"
	"muster/internal/wire/controlpb"
)

// join takes part in the pool's membership, with the orchestrator as the seed.
// A participant that outlived the former attempt contacts it again.
func (net *network) join(ctx context.Context) error {
	m := net.membership()
	if m == nil {
		var err error
		if m, err = net.participate(); err != nil {
			return err
		}
	}
	return m.Join(ctx, []id.NodeID{net.n.cfg.Orchestrator})
}

func (net *network) participate() (*member.Member, error) {
	net.mu.Lock()
	defer net.mu.Unlock()
	profile, err := profileOf(net.hello.GetSwim())
	if err != nil {
		return nil, err
	}
	orchestrator := controlpb.Boot(net.hello.GetBootId())
	m, err := member.New(member.Config{
		Self: net.endpoint.ID(), Boot: net.n.bootID, Pool: net.hello.GetPool(), Profile: profile, Epoch: net.epoch,
		Facts: func(f member.Fact) { net.saw(f, orchestrator) },
		Tell:  net.n.cfg.Tell, Log: net.n.cfg.Log,
	})
	if err != nil {
		return nil, err
	}
	if err := m.Start(member.Over(net.endpoint)); err != nil {
		return nil, err
	}
	m.SetPeers(slices.Collect(maps.Keys(net.peers)))
	net.member = m
	return m, nil
}

// profileOf is the profile that the orchestrator names, with its figures.
func profileOf(s *controlpb.SwimSettings) (member.Profile, error) {
	p, err := member.ParseProfile(s.GetProfile())
	if err != nil {
		return p, err
	}
	for _, f := range []struct {
		told int64
		to   *time.Duration
	}{
		{s.GetProbeIntervalMicros(), &p.ProbeInterval},
		{s.GetProbeTimeoutMicros(), &p.ProbeTimeout},
		{s.GetGossipIntervalMicros(), &p.GossipInterval},
		{s.GetPushPullIntervalMicros(), &p.PushPull},
	} {
		if f.told > 0 {
			*f.to = controlpb.Duration(f.told)
		}
	}
	if m := s.GetSuspicionMultiplier(); m > 0 {
		p.Suspicion = int(m)
	}
	return p, nil
}

// saw follows the one member that the node depends on. The others are the
// orchestrator's business.
func (net *network) saw(f member.Fact, boot id.BootID) {
	if f.Node != net.n.cfg.Orchestrator {
		return
	}
	switch {
	case !f.Boot.IsZero() && f.Boot != boot && f.State == member.Alive:
		net.n.orchestratorLost("it was started anew")
	case f.Boot == boot && (f.State == member.Dead || f.State == member.Left):
		net.n.orchestratorLost("SWIM says that it is " + f.State.String())
	}
}

// orchestratorLost takes back that this node is known: a stage is torn down,
// and hello is said again.
func (n *node) orchestratorLost(what string) {
	n.tell(lost{boot.Identity, fault.New(fault.NodeOrchestratorLost, component,
		"orchestrator", n.cfg.Orchestrator.Short(), "what", what)})
}

// leave tells the other members that this one goes of its own will.
func (net *network) leave() {
	m := net.membership()
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewellWithin)
	defer cancel()
	_ = m.Leave(ctx) // they will find it dead instead
}
