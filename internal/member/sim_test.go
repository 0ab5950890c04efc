package member_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"muster/internal/id"
	"muster/internal/member"
)

// Halves that have forgotten each other for good find each other again.
func TestAHealedPartitionIsOnePool(t *testing.T) {
	for _, p := range []member.Profile{member.Local(), member.LAN(), member.WAN()} {
		t.Run(p.Name, func(t *testing.T) {
			sim(t, func(s *simNetwork) {
				nodes := s.pool(6, p)
				left, right := nodes[:3], nodes[3:]
				half := func(n id.NodeID) bool { return n[0] < 3 }
				s.set(func() { s.cut = func(a, b id.NodeID) bool { return half(a) != half(b) } })
				s.await("each half has given up the other", time.Hour, func() bool {
					return allSee(left, right, member.Dead) && allSee(right, left, member.Dead)
				})
				time.Sleep(4 * p.Remember) // the library has forgotten the dead
				if !allSee(left, right, member.Dead) || !allSee(right, left, member.Dead) || !allSee(left, left, member.Alive) {
					t.Error("the dead are no longer dead, or the living no longer alive")
				}
				s.set(func() { s.cut = nil })
				s.await("one pool", 20*p.Rejoin, func() bool { return allSee(nodes, nodes, member.Alive) })
				for _, a := range left {
					for _, b := range right {
						promises(t, a.heard(b))
					}
				}
			})
		})
	}
}

// promises checks what consumers of facts build on.
func promises(t *testing.T, facts []member.Fact) {
	t.Helper()
	for i := 1; i < len(facts); i++ {
		last, f := facts[i-1], facts[i]
		if f.Boot == last.Boot && (f.Incarnation < last.Incarnation || f.State == member.Alive && last.State != member.Alive && f.Incarnation == last.Incarnation) {
			t.Errorf("the incarnation does not tell:\n%s", list(facts))
			return
		}
	}
}

// The doubt is seen well before the library tells anybody of the death.
func TestSuspicionIsSeenEarly(t *testing.T) {
	for _, p := range []member.Profile{member.Local(), member.LAN(), member.WAN()} {
		t.Run(p.Name, func(t *testing.T) {
			sim(t, func(s *simNetwork) {
				nodes := s.pool(5, p)
				lost, others := nodes[4], nodes[:4]
				s.set(func() { s.cut = func(a, _ id.NodeID) bool { return a == lost.self } })
				s.await("dead", time.Hour, func() bool { return allSee(others, nodes[4:], member.Dead) })
				for _, n := range others {
					var suspected, died time.Time
					for _, f := range n.heard(lost) {
						switch f.State {
						case member.Suspect:
							suspected = f.At
						case member.Dead:
							died = f.At
						default:
						}
					}
					if suspected.IsZero() || died.Sub(suspected) < p.ProbeInterval {
						t.Errorf("suspect only %s before dead:\n%s", died.Sub(suspected), list(n.heard(lost)))
					}
				}
			})
		})
	}
}

// A suspicion that comes and goes between two readings leaves its trace.
func TestAFlapBetweenReadingsRaisesTheIncarnation(t *testing.T) {
	sim(t, func(s *simNetwork) {
		p := member.Local()
		p.Suspicion = 100 // nobody dies of it
		nodes := s.pool(4, p)
		blind, flapping := nodes[0], nodes[3]
		asleep, awake := make(chan struct{}), make(chan struct{})
		var once sync.Once
		blind.mu.Lock()
		blind.onRead = func() {
			once.Do(func() {
				close(asleep)
				<-awake
			})
		}
		blind.mu.Unlock()
		<-asleep
		before, _ := blind.View().Row(flapping.self)
		s.set(func() { s.cut = func(a, _ id.NodeID) bool { return a == flapping.self } })
		s.await("suspect", time.Minute, func() bool { return nodes[1].sees(flapping) == member.Suspect })
		s.set(func() { s.cut = nil })
		s.await("refuted", time.Minute, func() bool { return nodes[1].sees(flapping) == member.Alive && nodes[2].sees(flapping) == member.Alive })
		time.Sleep(time.Second) // gossip reaches all
		close(awake)
		s.await("the trace", time.Minute, func() bool {
			r, _ := blind.View().Row(flapping.self)
			return r.State == member.Alive && r.Incarnation > before.Incarnation
		})
		for _, f := range blind.heard(flapping) {
			if f.State != member.Alive {
				t.Errorf("it was looking:\n%s", list(blind.heard(flapping)))
			}
		}
	})
}

// Loss makes doubts, never lasting ones.
func TestLossyLinks(t *testing.T) {
	for _, loss := range []float64{0.05, 0.15, 0.30} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			sim(t, func(s *simNetwork) {
				nodes := s.pool(8, member.LAN())
				s.set(func() { s.loss = loss })
				time.Sleep(10 * time.Minute)
				s.set(func() { s.loss = 0 })
				s.await("all alive", 5*time.Minute, func() bool { return allSee(nodes, nodes, member.Alive) })
				for _, a := range nodes {
					for _, b := range nodes {
						promises(t, a.heard(b))
						for _, f := range a.heard(b) {
							if f.State == member.Dead || f.State == member.Left {
								t.Errorf("loss has killed one:\n%s", list(a.heard(b)))
							}
						}
					}
				}
			})
		})
	}
}

// Nobody doubts anybody where nothing is wrong.
func TestQuietPoolsStayQuiet(t *testing.T) {
	for _, p := range []member.Profile{member.Local(), member.LAN()} {
		sim(t, func(s *simNetwork) {
			nodes := s.pool(10, p)
			before := nodes[0].View().Sequence
			time.Sleep(400 * p.ProbeInterval)
			v := nodes[0].View()
			if v.Sequence != before {
				t.Errorf("%d facts about nothing:\n%s", v.Sequence-before, list(nodes[0].heard(nil)))
			}
			if age := time.Since(v.Read); age > 2*p.Poll {
				t.Errorf("the view is %s old", age)
			}
			if h := nodes[0].Health(); h.Score != 0 || h.Bad {
				t.Errorf("its health is %+v", h)
			}
		})
	}
}

// One lost peer, and nobody to ask about it, is not the member's own illness.
func TestTheLossOfTheOnlyPeerIsNoBadHealth(t *testing.T) {
	for _, p := range []member.Profile{member.Local(), member.LAN(), member.WAN()} {
		sim(t, func(s *simNetwork) {
			nodes := s.pool(2, p)
			s.stop(nodes[1])
			s.await("dead", time.Hour, func() bool {
				if h := nodes[0].Health(); h.Bad {
					t.Fatalf("%s: bad at %+v", p.Name, h)
				}
				return nodes[0].sees(nodes[1]) == member.Dead
			})
		})
	}
}

// Whoever cannot hear anybody finds that it is itself unwell.
func TestAnIsolatedMemberIsUnwell(t *testing.T) {
	sim(t, func(s *simNetwork) {
		nodes := s.pool(6, member.LAN())
		alone := nodes[0]
		s.set(func() { s.cut = func(a, _ id.NodeID) bool { return a == alone.self } })
		s.await("bad health", 10*time.Minute, func() bool { return alone.Health().Bad })
		s.set(func() { s.cut = nil })
		s.await("good health", 10*time.Minute, func() bool { return !alone.Health().Bad && allSee(nodes, nodes, member.Alive) })
	})
}

// Restart after restart, before and after the former is missed.
func TestRestarts(t *testing.T) {
	sim(t, func(s *simNetwork) {
		nodes := s.pool(4, member.LAN())
		ids := []id.NodeID{nodes[0].self, nodes[1].self, nodes[2].self, nodes[3].self}
		for i, pause := range []time.Duration{0, 2 * time.Second, 20 * time.Second, 5 * time.Minute} {
			if i%2 == 1 {
				if err := nodes[3].Leave(context.Background()); err != nil {
					t.Error(err)
				}
			}
			s.stop(nodes[3])
			time.Sleep(pause)
			nodes[3] = s.open(3, member.LAN())
			nodes[3].SetPeers(ids)
			if err := nodes[3].Join(context.Background(), ids[:2]); err != nil {
				t.Fatal(err)
			}
			s.await("the new boot is alive", time.Minute, func() bool { return allSee(nodes, nodes, member.Alive) })
		}
		for _, n := range nodes[:3] {
			promises(t, n.heard(nodes[3]))
		}
	})
}
