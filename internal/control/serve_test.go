package control_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"muster/internal/control"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/testkit"
	"muster/internal/wire/controlpb"
)

// frame is a message as it is sent, whether it is sound or not.
func frame(t testing.TB, m proto.Message) []byte {
	t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// sound is a request as a caller sends it.
func sound(t testing.TB) *controlpb.Request {
	t.Helper()
	req := ping(1)
	req.Version, req.DeadlineMicros = control.Version, time.Second.Microseconds()
	return req
}

func provision(t testing.TB) *controlpb.Request {
	t.Helper()
	random := bytes.NewReader(bytes.Repeat([]byte{0x5a}, 64))
	run, err := id.NewRunID(random)
	if err != nil {
		t.Fatal(err)
	}
	edge, err := id.NewEdgeID(random)
	if err != nil {
		t.Fatal(err)
	}
	end := &controlpb.EdgeSpec{EdgeId: controlpb.ID(edge), PeerId: controlpb.ID(orchestrator)}
	return &controlpb.Request{Version: control.Version, Body: &controlpb.Request_Provision{Provision: &controlpb.Provision{
		RunId: controlpb.ID(run), Attempt: 1, BootId: controlpb.ID(boot), Layers: controlpb.LayersOf([2]int{0, 3}), Stages: 2,
		Model:  &controlpb.ModelSource{Revision: "abc", Parts: []*controlpb.Part{{SizeBytes: 1}}, ManifestJson: []byte("{}")},
		Recipe: &controlpb.Recipe{KvType: "f16", FlashAttention: "auto"},
		In:     end, Out: end, Epoch: 1,
	}}}
}

// served lets Serve answer what a peer wrote and returns its reply.
func served(t *testing.T, h control.Handler, sent []byte, ended bool) *controlpb.Reply {
	t.Helper()
	here, there := newStream(16 << 20)
	if _, err := here.Write(sent); err != nil {
		t.Fatal(err)
	}
	if ended {
		if err := here.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	control.Serve(t.Context(), node, there, h)
	answer, err := io.ReadAll(here)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer) < 4 || int(binary.LittleEndian.Uint32(answer)) != len(answer)-4 {
		t.Fatalf("the reply is %d bytes that are no frame", len(answer))
	}
	var reply controlpb.Reply
	if err := controlpb.Decode(answer[4:], &reply); err != nil {
		t.Fatal(err)
	}
	if err := reply.Check(); err != nil {
		t.Fatal(err)
	}
	return &reply
}

func uncalled(t *testing.T) control.Handler {
	return func(context.Context, id.NodeID, *controlpb.Request) (*controlpb.Reply, error) {
		t.Error("the handler was called")
		return nil, nil
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	whole := frame(t, sound(t))
	altered := func(change func(*controlpb.Request)) []byte {
		req := sound(t)
		change(req)
		return frame(t, req)
	}
	cases := map[string]struct {
		sent []byte
		code fault.Code
		want string
	}{
		"nothing":            {nil, fault.ControlRequestInvalid, "frame ended after 0 of 4 bytes"},
		"half a length":      {whole[:2], fault.ControlRequestInvalid, "frame ended after 2 of 4 bytes"},
		"half a frame":       {whole[:len(whole)-1], fault.ControlRequestInvalid, "frame ended after"},
		"too long":           {[]byte{1, 0, 0x40, 0}, fault.ControlRequestInvalid, "frame has 4194305 bytes, at most 4194304 are taken"},
		"followed by more":   {append(bytes.Clone(whole), 0), fault.ControlRequestInvalid, "frame is followed by more"},
		"garbage":            {[]byte{3, 0, 0, 0, 0xff, 0xff, 0xff}, fault.ControlRequestInvalid, "message is no protobuf"},
		"another version":    {altered(func(r *controlpb.Request) { r.Version = 7 }), fault.ControlVersionMismatched, "speaks version 7 of the control protocol, this node version 1"},
		"no version":         {altered(func(r *controlpb.Request) { r.Version = 0 }), fault.ControlVersionMismatched, "version 0"},
		"no body":            {altered(func(r *controlpb.Request) { r.Body = nil }), fault.ControlRequestInvalid, "body is none that this build knows"},
		"a negative time":    {altered(func(r *controlpb.Request) { r.DeadlineMicros = -1 }), fault.ControlRequestInvalid, "deadline_micros is -1"},
		"an id of 15 bytes":  {altered(func(r *controlpb.Request) { r.GetPing().BootId = make([]byte, 15) }), fault.ControlRequestInvalid, "ping.boot_id has 15 bytes, a boot id has 16"},
		"an id that is none": {altered(func(r *controlpb.Request) { r.GetPing().BootId = make([]byte, 16) }), fault.ControlRequestInvalid, "ping.boot_id is all zero"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reply := served(t, uncalled(t), c.sent, true)
			wantFault(t, reply.GetFault().Typed(), c.code, c.want)
		})
	}
}

// The version is asked before the body, which another version may not have.
func TestAnotherVersionsBodyIsNotLookedAt(t *testing.T) {
	req := sound(t)
	req.Version, req.GetPing().BootId = 2, []byte{1}
	reply := served(t, uncalled(t), frame(t, req), true)
	wantFault(t, reply.GetFault().Typed(), fault.ControlVersionMismatched, "version 2")
}

func TestAPeerThatStallsInItsFrameIsRefused(t *testing.T) {
	whole := frame(t, sound(t))
	for _, sent := range [][]byte{nil, whole[:2], whole[:9], whole} { // the last one never says its end
		testkit.Bubble(t, func(t *testing.T) {
			began := time.Now()
			reply := served(t, uncalled(t), sent, false)
			wantFault(t, reply.GetFault().Typed(), fault.ControlRequestInvalid, "frame was not whole within 5s")
			if took := time.Since(began); took != 5*time.Second {
				t.Errorf("it was held for %s", took)
			}
		})
	}
}

func TestAPanickingHandlerIsAnsweredAndLogged(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)

	reply := served(t, func(context.Context, id.NodeID, *controlpb.Request) (*controlpb.Reply, error) {
		var nothing *controlpb.Ping
		nothing.Nonce = 1
		return nil, nil
	}, frame(t, sound(t)), true)
	wantFault(t, reply.GetFault().Typed(), fault.InternalUnexpected, "panic in ping: runtime error: invalid memory address")
	for _, want := range []string{"op=ping", "peer=" + node.Short(), "serve_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &log)
		}
	}
}

func TestHandlersThatDoNotAnswer(t *testing.T) {
	type result struct {
		reply *controlpb.Reply
		err   error
	}
	long := pong(1)
	for range 64 {
		long.GetPing().Facts = &controlpb.Facts{Attempt: 1, Facts: append(long.GetPing().GetFacts().GetFacts(), &controlpb.FactState{})}
	}
	cases := map[string]struct {
		result
		code fault.Code
		want string
	}{
		"unserved":           {result{nil, nil}, fault.ControlRequestUnserved, "ping is not served there"},
		"untyped error":      {result{nil, errors.New("odd")}, fault.InternalUnexpected, "odd"},
		"another's reply":    {result{&controlpb.Reply{Body: &controlpb.Reply_Leave{}}, nil}, fault.ControlReplyInvalid, "the answer to ping was refused: body answers another question"},
		"unsound reply":      {result{long, nil}, fault.ControlReplyInvalid, "ping.facts.facts[0].name is empty"},
		"fault in the reply": {result{&controlpb.Reply{Fault: controlpb.FaultOf(fault.New(fault.ArenaClosed, "arena"))}, nil}, fault.ArenaClosed, "the memory file was closed before"},
		"no text": {
			result{&controlpb.Reply{Body: &controlpb.Reply_Ping{Ping: &controlpb.Pong{
				BootId: controlpb.ID(boot),
				Facts:  &controlpb.Facts{Attempt: 1, Facts: []*controlpb.FactState{{Name: "\xff", State: controlpb.FactState_STATE_PENDING}}},
			}}}, nil}, fault.ControlReplyInvalid, "message cannot be sent",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reply := served(t, func(context.Context, id.NodeID, *controlpb.Request) (*controlpb.Reply, error) {
				return c.reply, c.err
			}, frame(t, sound(t)), true)
			wantFault(t, reply.GetFault().Typed(), c.code, c.want)
		})
	}
}

func TestAHandlerHasADeadlineInAnyCase(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		0:              30 * time.Second,
		time.Second:    time.Second,
		48 * time.Hour: 10 * time.Minute,
	} {
		testkit.Bubble(t, func(t *testing.T) {
			req := sound(t)
			req.DeadlineMicros = asked.Microseconds()
			began := time.Now()
			reply := served(t, func(ctx context.Context, _ id.NodeID, _ *controlpb.Request) (*controlpb.Reply, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}, frame(t, req), true)
			wantFault(t, reply.GetFault().Typed(), fault.ControlCallOverdue, "ping was not answered within "+want.String())
			if took := time.Since(began); took != want {
				t.Errorf("asked for %s, the handler had %s", asked, took)
			}
		})
	}
}

func TestAPeerThatReadsNoReplyIsLeft(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		here, there := newStream(64)
		if _, err := here.Write(frame(t, sound(t))); err != nil {
			t.Fatal(err)
		}
		if err := here.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		control.Serve(t.Context(), node, there, func(context.Context, id.NodeID, *controlpb.Request) (*controlpb.Reply, error) {
			return nil, fault.New(fault.WorkerExited, "worker", "status", 1, "log", strings.Repeat("a line\n", 500))
		})
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it was waited for %s", took)
		}
		if _, err := io.ReadAll(here); !errors.Is(err, errCancelled) {
			t.Errorf("the peer reads %v after half a reply", err)
		}
	})
}

func TestServeEndsWithItsContext(t *testing.T) {
	whole := frame(t, sound(t))
	for name, sent := range map[string][]byte{"while it reads": whole[:5], "while it is handled": whole} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				here, there := newStream(64 << 10)
				if _, err := here.Write(sent); err != nil {
					t.Fatal(err)
				}
				if len(sent) == len(whole) {
					if err := here.CloseWrite(); err != nil {
						t.Fatal(err)
					}
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					control.Serve(ctx, node, there, func(ctx context.Context, _ id.NodeID, _ *controlpb.Request) (*controlpb.Reply, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					})
				}()
				synctest.Wait()
				began := time.Now()
				cancel()
				<-ended
				if took := time.Since(began); took != 0 {
					t.Errorf("it went on for %s", took)
				}
			})
		})
	}
}
