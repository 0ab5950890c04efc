//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// insideVariable tells the program that it runs in a network of its own.
const insideVariable = "MUSTER_LOSSBENCH_INSIDE"

// noLinks says why nodes cannot have links of their own here, "" where they can.
func noLinks() string {
	if os.Geteuid() != 0 {
		return "network namespaces need root"
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return "the program ip (iproute2) is not there"
	}
	return ""
}

// inNetworkOfItsOwn runs this program again in a namespace that ends with it.
func inNetworkOfItsOwn(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endWithin
	return cmd.Run() // the main thread waits, so it outlives the process
}

// endWithin is how long the program may take to end its pools.
const endWithin = 30 * time.Second

func loopbackUp(ctx context.Context) error { return ip(ctx, nil, "link set lo up") }

// Addresses of the network: those set aside for benchmarks.
const hubAddress = "198.18.0.1"

func linkAddress(i int) string { return fmt.Sprintf("198.18.0.%d", 10+i) }

// cable is a node's link to the hub, the network that the orchestrator is in.
type cable struct {
	in  *namespace
	end string // the hub's end of it
}

// newCables makes the hub and a namespace with a cable for each node.
func newCables(ctx context.Context, n int) ([]cable, func(), error) {
	var cables []cable
	remove := func() {
		after := context.WithoutCancel(ctx)
		for _, c := range cables {
			_ = c.in.file.Close()
			_ = ip(after, nil, "link del "+c.end) // else it ends with the program's network
		}
		_ = ip(after, nil, "link del hub")
	}
	err := ips(ctx, nil, "link add hub type bridge", "addr add "+hubAddress+"/24 dev hub", "link set hub up")
	for i := 0; i < n && err == nil; i++ {
		c := cable{end: "cable" + strconv.Itoa(i)}
		if c.in, err = newNamespace(); err != nil {
			break
		}
		cables = append(cables, c)
		err = errors.Join(
			ips(ctx, c.in, "link set lo up", fmt.Sprintf("link add eth0 type veth peer name %s netns %d", c.end, os.Getpid()),
				"addr add "+linkAddress(i)+"/24 dev eth0", "link set eth0 up"),
			ips(ctx, nil, "link set "+c.end+" master hub", "link set "+c.end+" up"))
	}
	if err != nil {
		remove()
		return nil, nil, err
	}
	return cables, remove, nil
}

func (c cable) pull(ctx context.Context) error { return ip(ctx, nil, "link set "+c.end+" down") }
func (c cable) plug(ctx context.Context) error { return ip(ctx, nil, "link set "+c.end+" up") }

func ips(ctx context.Context, in *namespace, all ...string) error {
	for _, words := range all {
		if err := ip(ctx, in, words); err != nil {
			return err
		}
	}
	return nil
}

func ip(ctx context.Context, in *namespace, words string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "ip", strings.Fields(words)...)
	cmd.Stdout, cmd.Stderr = &said, &said
	p, err := start(cmd, in)
	if err != nil {
		return err
	}
	<-p.ended
	if !cmd.ProcessState.Success() {
		return fmt.Errorf("ip %s: %s", words, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}
