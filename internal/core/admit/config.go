package admit

import (
	"cmp"
	"time"
)

// Config holds the figures of the rule and of the book. Zero fields take the
// default.
type Config struct {
	ChallengeFor time.Duration // from giving a challenge to accepting its report; default 60 s
	ReportFor    time.Duration // from the end of the forward to the acceptance; default 60 s
	LeaseFor     time.Duration // from a grant or a renewal to the end; default 10 s
	RenewEvery   time.Duration // told to nodes; default 3 s

	PauseLeast time.Duration // after a first refusal; each further one doubles it; default 1 s
	PauseMost  time.Duration // default 60 s

	Challenges      int           // open at once for one node; default 4
	ChallengesInAll int           // kept at once; default 4096
	Nodes           int           // remembered at once; default 1024
	Burst           int           // requests of one node at once; default 20
	RequestEvery    time.Duration // of one node in the long run; default 200 ms
}

func (c Config) filled() Config {
	c.ChallengeFor = cmp.Or(c.ChallengeFor, 60*time.Second)
	c.ReportFor = cmp.Or(c.ReportFor, 60*time.Second)
	c.LeaseFor = cmp.Or(c.LeaseFor, 10*time.Second)
	c.RenewEvery = cmp.Or(c.RenewEvery, 3*time.Second)
	c.PauseLeast = cmp.Or(c.PauseLeast, time.Second)
	c.PauseMost = cmp.Or(c.PauseMost, 60*time.Second)
	c.Challenges = cmp.Or(c.Challenges, 4)
	c.ChallengesInAll = cmp.Or(c.ChallengesInAll, 4096)
	c.Nodes = cmp.Or(c.Nodes, 1024)
	c.Burst = cmp.Or(c.Burst, 20)
	c.RequestEvery = cmp.Or(c.RequestEvery, 200*time.Millisecond)
	return c
}
