//go:build linux

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"muster/internal/fault"
)

func called(node string) string {
	return map[string]string{"aaaaaaaa": "n1", "bbbbbbbb": "n2"}[node]
}

func of(node string, code fault.Code) *fault.Fault {
	f := fault.New(code, "gate")
	f.Node = node
	return f
}

func TestOnlyAFaultThatNamesTheLostNodeIsAGoodEnd(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		good bool
	}{
		"the lost node":            {of("bbbbbbbb", fault.NodeSuspected), true},
		"another node":             {of("aaaaaaaa", fault.NodeSuspected), false},
		"nobody":                   {of("", fault.OrchStarved), false},
		"not known what":           {of("bbbbbbbb", fault.InternalUnexpected), false},
		"no code of this house":    {of("bbbbbbbb", "node.blown_away"), false},
		"the orchestrator is gone": {of("bbbbbbbb", fault.GatewayUnreachable), false},
		"no type":                  {errors.New("EOF"), false},
	} {
		trial := &trial{kind: nodeKill, victim: "n2"}
		if trial.judge(c.err, called); (len(trial.wrong) == 0) != c.good {
			t.Errorf("%s: judged %q", name, trial.wrong)
		}
	}
}

func TestARecordTellsWhatWasMeasured(t *testing.T) {
	r := newRecord(&settings{threads: 1, skipped: []string{"link-cut is skipped: no root"}})
	for i := range 10 {
		good := &trial{kind: nodeKill, nodes: 3, number: i + 1, victim: "n2", toError: time.Duration(i+1) * 100 * time.Millisecond}
		good.judge(of("bbbbbbbb", fault.NodeSuspected), called)
		good.awaitToken(time.Unix(2, 0), nil, time.Unix(1, 0))
		r.add(good)
	}
	wrong := &trial{kind: nodeStop, nodes: 5, number: 1, victim: "n2", toError: time.Second}
	wrong.judge(of("aaaaaaaa", fault.NodeDied), called)
	wrong.awaitToken(time.Time{}, errors.New("no token\nat all"), time.Time{})
	slow := &trial{kind: workerKill, nodes: 3, number: 1, victim: "n2", toError: 1501 * time.Millisecond}
	slow.judge(of("bbbbbbbb", fault.WorkerKilled), called)
	slow.awaitToken(time.Unix(2, 0), nil, time.Unix(1, 0))
	slow.again = []string{"node.doubted of n1"}
	mute := (&trial{kind: linkCut, nodes: 3, number: 1, victim: "n1"}).fails(errors.New("the answer has not ended"))
	r.early = []*trial{(&trial{kind: nodeKill, nodes: 5, number: 4, victim: "n3"}).fails(errors.New("a fault before any loss"))}
	for _, other := range []*trial{wrong, slow, mute} {
		r.add(other)
	}
	text := r.text(errors.New("the machine fell over"))
	for _, want := range []string{
		"| node-kill | 3 | 10 | 0 | 550 | 900 | 1000 | 1500 | yes | 1000 | 1000 | 1000 | the node's start |",
		"| node-stop | 5 | 1 | 1 | 1000 | 1000 | 1000 | 3000 | no | - | - | - | SIGCONT |",
		"| worker-kill | 3 | 1 | 0 | 1501 | 1501 | 1501 | 1500 | no | 1000 |",
		"| link-cut | 3 | 1 | 1 | - | - | - | 1500 | no | - |",
		"| node-kill | 3 | `node.suspected` | the lost node | 10 |",
		"| node-stop | 5 | `node.died` | another node | 1 |",
		"| link-cut | 3 | `none` | nobody | 1 |",
		"- node-stop, 5 nodes, trial 1, n2 lost: it names n1, lost was n2",
		"; no token; at all\n",
		"False faults before a loss, whose trials were made again:\n\n- node-kill, 5 nodes, trial 4, n3 lost: a fault before any loss\n",
		"- worker-kill, 3 nodes, trial 1, n2 lost: node.doubted of n1\n",
		"node-kill,3,10,n2,0,1000,1000,node.suspected,n2,,false\n",
		"Not finished: the machine fell over.",
		"Not measured: link-cut is skipped: no root.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the record lacks %q:\n%s", want, text)
		}
	}
}

func TestAWatchTellsEveryFalseFault(t *testing.T) {
	r := newRecord(&settings{quiet: time.Minute})
	r.watches = []*watch{
		{nodes: 3, load: "idle", lasted: time.Minute},
		{nodes: 3, load: "loaded", lasted: time.Minute, answers: 7, tokens: 99, faulted: 1, suspect: 2, counts: map[string]int{"run.ended (n1): node.suspected": 1}},
	}
	text := r.text(nil)
	for _, want := range []string{
		"| 3 | idle | 1m0s | 0 | 0 | 0 | 0 | 0 |", "| 3 | loaded | 1m0s | 7 | 99 | 1 | 2 | 0 |",
		"- 3 nodes, loaded: run.ended (n1): node.suspected, 1 times",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the record lacks %q:\n%s", want, text)
		}
	}
}

func TestAProcessIsReadWhateverItsName(t *testing.T) {
	if name, parent := nameAndParent("12 (a ) b) S 7 12 12 0"); name != "a ) b" || parent != 7 {
		t.Errorf("read %q, a child of %d", name, parent)
	}
	if name, parent := nameAndParent("12 (cut"); name != "" || parent != 0 {
		t.Errorf("read %q, a child of %d, from half a line", name, parent)
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{{"-kinds", "fire"}, {"-sizes", "0"}, {"-sizes", "9"}, {"-trials", "0"}, {"x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
