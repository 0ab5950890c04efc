package tracker_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"muster/internal/core/admit"
	"muster/internal/fault"
	"muster/internal/testkit"
	"muster/internal/tracker/api"
)

func TestWhatIsNoRequestIsAnsweredOrEndedAndHarmsNobody(t *testing.T) {
	for name, sent := range map[string]string{
		"garbage":               "\x16\x03\x01\x02\x00 and so on\r\n\r\n",
		"another protocol":      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"no host":               "GET /v1/nodes HTTP/1.1\r\n\r\n",
		"a huge head":           "GET /v1/nodes HTTP/1.1\r\nHost: tracker\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"two lengths":           "POST /v1/nodes/renew HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
		"a length below zero":   "POST /v1/nodes/renew HTTP/1.1\r\nHost: t\r\nContent-Length: -1\r\n\r\n{}",
		"a path that climbs":    "GET /v1/../../nodes HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
		"a path of no node":     "DELETE /v1/nodes/%2e%2e?lease=1 HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
		"a form in place of it": "DELETE /v1/nodes/x HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 3\r\n\r\n--b",
		"half a chunk":          "POST /v1/nodes/register HTTP/1.1\r\nHost: t\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				b := newBench(t)
				answer := b.raw(nodeOf(2), sent)
				if answer != "" && !strings.HasPrefix(answer, "HTTP/1.1 4") && !strings.HasPrefix(answer, "HTTP/1.1 3") && !strings.HasPrefix(answer, "HTTP/1.1 5") {
					t.Errorf("answered by %.200s", answer)
				}
				time.Sleep(time.Second) // a refused report costs as much
				b.admit(2)
			})
		})
	}
}

func TestAStreamCarriesOneRequest(t *testing.T) {
	b := newBench(t)
	answer := b.raw(nodeOf(2), strings.Repeat("GET /v1/nodes HTTP/1.1\r\nHost: t\r\n\r\n", 2))
	if n := strings.Count(answer, "HTTP/1.1 200 OK"); n != 1 {
		t.Errorf("%d answers came: %s", n, answer)
	}
}

// A peer that does not go on is let go, whether it sends slowly or does not
// read.
func TestAPeerThatDoesNotGoOnIsLetGo(t *testing.T) {
	for name, sent := range map[string]string{
		"says nothing":     "",
		"half a head":      "POST /v1/nodes/reg",
		"half a body":      "POST /v1/nodes/register HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\n{",
		"reads no answer":  "GET /v1/nodes HTTP/1.1\r\nHost: t\r\n\r\n",
		"asks for nothing": "GET /v1/nodes HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				b := newBench(t)
				began := time.Now()
				s := b.open(t.Context(), nodeOf(2))
				if _, err := io.WriteString(s, sent); err != nil {
					t.Fatal(err)
				}
				b.group.Wait() // Serve has returned
				if waited := time.Since(began); waited > time.Minute {
					t.Errorf("it was held for %s", waited)
				}
				_ = s.Close()
			})
		})
	}
}

func TestAnEndedConnectionEndsItsRequest(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		b := newBench(t)
		asked := make(chan struct{})
		b.owner.want(func(ctx context.Context, _ admit.Report) (admit.Want, error) {
			close(asked)
			<-ctx.Done()
			return admit.Want{}, fault.New(fault.RunInterrupted, "test")
		})
		c := b.challenge(2)
		ctx, cancel := context.WithCancel(t.Context())
		signed, refused := admit.Sign(keyOf(2), b.report(2, c))
		if refused != nil {
			t.Fatal(refused)
		}
		body, err := admit.EncodeStrict(signed)
		if err != nil {
			t.Fatal(err)
		}
		s := b.open(ctx, nodeOf(2))
		_, err = fmt.Fprintf(s, "POST %s HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n%s", api.RegisterPath, len(body), body)
		if err != nil {
			t.Fatal(err)
		}
		<-asked
		began := time.Now()
		cancel()
		b.group.Wait()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it went on for %s", waited)
		}
		_ = s.Close()
	})
}

// FuzzServe feeds a tracker with what a permitted peer may send: it answers or
// hangs up, and grants nothing to who signed nothing.
func FuzzServe(f *testing.F) {
	f.Add([]byte("GET /v1/nodes HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"))
	f.Add([]byte("POST /v1/nodes/challenge HTTP/1.1\r\nHost: t\r\nContent-Length: 43\r\n\r\n{\"boot\":\"02000000000000000000000000000000\"}"))
	f.Add([]byte("POST /v1/nodes/renew HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"))
	f.Add([]byte("DELETE /v1/nodes/" + nodeOf(2).String() + "?lease=01 HTTP/1.1\r\nHost: t\r\n\r\n"))
	if body, err := admit.EncodeStrict(admit.Signed{Report: reportOf(2, admit.Challenge{1}, 1)}); err == nil {
		f.Add(fmt.Appendf(nil, "POST /v1/nodes/register HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		b := newBench(t)
		b.tracker.Serve(t.Context(), nodeOf(2), &script{rest: sent})
		for _, s := range b.tracker.Standings() {
			if s.Lease != nil {
				t.Error("a lease was granted")
			}
		}
	})
}

// script is a stream that has been written to its end, and takes all answers.
type script struct{ rest []byte }

func (s *script) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *script) Write(b []byte) (int, error)      { return len(b), nil }
func (s *script) CloseWrite() error                { return nil }
func (s *script) Cancel(uint32)                    {}
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
