package main

import (
	"slices"
	"time"

	"muster/internal/engine"
	"muster/internal/wire"
)

func (m *model) role() engine.Role {
	switch {
	case m.load.Kind == wire.LoadWhole:
		return engine.Whole
	case m.load.Last:
		return engine.Last
	}
	return engine.Middle
}

// open makes the context, with the fastest number of threads where the recipe
// leaves it open. More threads than free processors are many times slower than
// one, since the engine's barriers spin: so it is measured, on this machine as
// loaded as it is, and never taken from the number of processors. The number
// of threads does not change the results.
func (m *model) open() error {
	if m.load.Recipe.Threads > 0 || m.load.ThreadsMost <= 1 {
		return m.with(max(1, m.load.Recipe.Threads))
	}
	best, bestTime := 1, time.Duration(0)
	for n := 1; n <= m.load.ThreadsMost; n = more(n, m.load.ThreadsMost) {
		took, err := m.decodeTime(n, hopeless*bestTime)
		if err != nil {
			return err
		}
		if n > 1 && took > bestTime-bestTime/worthwhile {
			break
		}
		best, bestTime = n, took
	}
	if m.load.Recipe.Threads == best {
		return nil
	}
	return m.with(best)
}

// More threads must save one part in worthwhile of the time, and are given up
// at the first decode that takes hopeless times as long.
const (
	worthwhile = 10
	hopeless   = 4
)

// more doubles n, but does not pass most before it has been tried.
func more(n, most int) int {
	if n < most {
		return min(2*n, most)
	}
	return most + 1
}

// with opens the context with so many threads in place of the one there is.
func (m *model) with(threads int) error {
	if m.context != nil {
		m.context.Close()
	}
	m.load.Recipe.Threads = threads
	var err error
	m.context, err = m.weights.NewContext(engine.ContextParams{Recipe: m.load.Recipe, Role: m.role()})
	return err
}

// decodeTime is the median of a few decodes of one token, or the first time
// over limit, where that is not 0.
func (m *model) decodeTime(threads int, limit time.Duration) (time.Duration, error) {
	if err := m.with(threads); err != nil {
		return 0, err
	}
	const warm, counted = 2, 5
	var took []time.Duration
	for i := range warm + counted {
		t, err := m.forward(1)
		if err != nil {
			return 0, err
		}
		if limit > 0 && t > limit {
			return t, nil
		}
		if i >= warm {
			took = append(took, t)
		}
	}
	slices.Sort(took)
	return took[counted/2], nil
}
