package client_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"muster/internal/core/admit"
	"muster/internal/fault"
	"muster/internal/id"
	"muster/internal/testkit"
	"muster/internal/tracker/api"
	"muster/internal/tracker/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type memory struct{ net.Conn }

func (m memory) CloseWrite() error { return m.Close() }
func (m memory) Cancel(uint32)     { _ = m.Close() }

var boot = id.BootID{1}

// answering is a client whose tracker reads a request and then does f.
func answering(t *testing.T, f func(s net.Conn)) *client.Client {
	var group sync.WaitGroup
	t.Cleanup(group.Wait)
	return client.New(id.NodeID{1}, id.NodeID{2}, func(context.Context) (api.Stream, error) {
		here, there := net.Pipe()
		group.Go(func() {
			defer func() { _ = there.Close() }()
			if r, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			f(there)
		})
		return memory{here}, nil
	})
}

// saying is a client whose tracker answers with bytes of its own.
func saying(t *testing.T, answer string) *client.Client {
	return answering(t, func(s net.Conn) { _, _ = io.WriteString(s, answer) })
}

func body(status, text string) string {
	return "HTTP/1.1 " + status + "\r\nConnection: close\r\n\r\n" + text
}

func wantCode(t *testing.T, err error, code fault.Code) *fault.Fault {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("the error is %v, want %s", err, code)
	}
	return f
}

func TestAnAnswerIsUnderstoodWholeOrNotAtAll(t *testing.T) {
	good := `{"challenge":"` + strings.Repeat("01", 32) + `","valid_ms":60000}`
	a, err := saying(t, body("200 OK", good)).Challenge(t.Context(), boot)
	if err != nil || a.ValidMS != 60_000 || a.Challenge[31] != 1 {
		t.Fatalf("%+v, %v", a, err)
	}
	for name, answer := range map[string]string{
		"garbage":              body("200 OK", "ok"),
		"nothing":              body("200 OK", ""),
		"no content":           body("204 No Content", ""),
		"another answer":       body("200 OK", `{"lease":"","lasts_ms":0,"renew_ms":0}`),
		"an unknown field":     body("200 OK", good[:len(good)-1]+`,"mood":1}`),
		"a trailing object":    body("200 OK", good+"{}"),
		"a refusal of no form": body("403 Forbidden", `{"error":"no"}`),
		"a refusal of no code": body("403 Forbidden", `{"error":{"code":"","message":"","hint":"","attrs":null}}`),
		"a page":               body("500 Internal Server Error", "<html>"),
		"a redirect":           "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nConnection: close\r\n\r\n",
		"an interim one alone": "HTTP/1.1 100 Continue\r\n\r\n" + body("201 Created", good),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := saying(t, answer).Challenge(t.Context(), boot)
			wantCode(t, err, fault.TrackerAnswerInvalid)
		})
	}
	for name, answer := range map[string]string{
		"no HTTP":       "hello\r\n\r\n",
		"half a head":   "HTTP/1.1 200 OK\r\nConte",
		"half a body":   "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + good,
		"none":          "",
		"a head on end": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20),
		"a body on end": body("200 OK", strings.Repeat(" ", api.MostAnswer+1)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := saying(t, answer).Challenge(t.Context(), boot)
			wantCode(t, err, fault.TrackerConnectionLost)
		})
	}
}

func TestARefusalOfANewerTrackerIsTold(t *testing.T) {
	_, err := saying(t, body("403 Forbidden", `{"error":{"code":"admit.moon_wrong","message":"the moon is wrong","hint":"wait","attrs":null}}`)).Register(t.Context(), admit.Signed{})
	if f := wantCode(t, err, "admit.moon_wrong"); !strings.Contains(f.Error(), "the moon is wrong") {
		t.Errorf("it says %q", f)
	}
}

func TestWhyThereIsNoStreamIsTold(t *testing.T) {
	refused := fault.New(fault.EndpointPeerRefused, "endpoint", "peer", "x")
	c := client.New(id.NodeID{1}, id.NodeID{2}, func(context.Context) (api.Stream, error) { return nil, refused })
	_, err := c.Renew(t.Context(), api.RenewRequest{})
	if f := wantCode(t, err, fault.EndpointPeerRefused); f != refused {
		t.Errorf("it became %v", f)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		silent := func(s net.Conn) { _, _ = io.Copy(io.Discard, s) }
		began := time.Now()
		_, err := answering(t, silent).Challenge(t.Context(), boot)
		if f := wantCode(t, err, fault.TrackerCallOverdue); f.Attr("waited") != "10s" || f.Attr("path") != api.ChallengePath {
			t.Errorf("%+v", f.Attrs)
		}
		if time.Since(began) != 10*time.Second {
			t.Errorf("a call without a deadline took %s", time.Since(began))
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = answering(t, silent).Withdraw(ctx, admit.Challenge{1})
		wantCode(t, err, fault.TrackerCallOverdue)

		stopped := fault.New(fault.RunInterrupted, "test")
		given, giveUp := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { giveUp(stopped) })
		_, err = answering(t, silent).Register(given, admit.Signed{})
		if f := wantCode(t, err, fault.RunInterrupted); f != stopped {
			t.Errorf("it became %v", f)
		}
	})
}

func TestAnOpeningEndsWithItsCall(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := client.New(id.NodeID{1}, id.NodeID{2}, func(ctx context.Context) (api.Stream, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		_, err := c.Challenge(t.Context(), boot)
		wantCode(t, err, fault.TrackerCallOverdue)
	})
}

func FuzzParseProblem(f *testing.F) {
	f.Add([]byte(`{"error":{"code":"admit.check_failed","message":"m","hint":"h","attrs":[{"key":"field","value":"cosine"}]}}`))
	f.Add([]byte(`{"error":{"code":"x","message":"m","hint":"h","attrs":null,"cause":"c"}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := api.ParseProblem(b)
		if err != nil {
			return
		}
		if got.Code == "" || got.Error() == "" || api.RetryAfter(got) < 0 {
			t.Errorf("%s became %+v", b, got)
		}
	})
}
