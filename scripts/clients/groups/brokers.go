package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// brokers are the nodes of a run: a single one, or three that form a cluster.
type brokers []*broker

// startBrokers starts the nodes and waits until each is ready. Also on an error, it returns those
// that it has started.
func startBrokers(ctx context.Context, c config, session string) (brokers, error) {
	settings := []string{"group.initial.rebalance.delay.ms=500", "group.consumer.session.timeout.ms=" + session,
		"group.consumer.heartbeat.interval.ms=500"}
	addrs := []string{"127.0.0.1:0"}
	if c.nodes > 1 {
		var err error
		if addrs, err = freeAddresses(c.nodes); err != nil {
			return nil, err
		}
		settings = append(settings, "cluster.name=groups", "cluster.seeds="+strings.Join(addrs, ","))
	}
	var list brokers
	for i, addr := range addrs {
		b := &broker{binary: c.chronikd, dir: c.dir, name: "chronikd", data: "data", addr: addr, settings: settings}
		if c.nodes > 1 {
			id := fmt.Sprint(i + 1)
			b.name, b.data, b.settings = b.name+id, b.data+id, append(slices.Clone(settings), "node.id="+id)
		}
		if err := b.start(); err != nil {
			return list, err
		}
		list = append(list, b)
	}
	for _, b := range list { // only now: a cluster forms when all of its nodes answer
		if err := b.ready(ctx); err != nil {
			return list, err
		}
	}
	return list, nil
}

// freeAddresses returns free ports of the loopback interface in a row. They are below those that
// the kernel gives to others, so that they stay free while a broker restarts.
func freeAddresses(n int) ([]string, error) {
	for range 1000 {
		first, addrs := 11000+rand.IntN(8000), []string(nil)
		for port := first; port < first+n; port++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				break
			}
			addrs = append(addrs, l.Addr().String())
			if err := l.Close(); err != nil {
				return nil, err
			}
		}
		if len(addrs) == n {
			return addrs, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports in a row", n)
}

func (l brokers) addrs() (list []string) {
	for _, b := range l {
		list = append(list, b.addr)
	}
	return list
}

func (l brokers) processes() (list []*process) {
	for _, b := range l {
		list = append(list, b.process)
	}
	return list
}

func (l brokers) kill() {
	for _, b := range l {
		b.kill()
	}
}

// stop stops all brokers at once; each must exit with 0.
func (l brokers) stop(ctx context.Context) error {
	stopped := make(chan error)
	for _, b := range l {
		go func() { stopped <- b.stop(ctx) }()
	}
	var errs []error
	for range l {
		errs = append(errs, <-stopped)
	}
	return errors.Join(errs...)
}

// logged returns an error if a broker has logged one.
func (l brokers) logged() error {
	for _, b := range l {
		log, err := os.ReadFile(b.log)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(log)) {
			for _, level := range []string{"error", "dpanic", "panic", "fatal"} {
				if strings.Contains(line, `"level":"`+level+`"`) {
					return fmt.Errorf("%s logged %s", b.name, line)
				}
			}
		}
	}
	return nil
}

// broker is a chronikd that keeps its address over restarts.
type broker struct {
	*process
	name         string
	binary, dir  string
	data, addr   string
	settings     []string
	loggedBefore int // length of the log when it was last started
}

var ready = regexp.MustCompile(`"msg":"ready".*"listen":\["([^"]+)"`)

// start starts the broker, also after its end. ready waits for it.
func (b *broker) start() (err error) {
	logged, _ := os.ReadFile(filepath.Join(b.dir, b.name+".log"))
	b.loggedBefore = len(logged)
	argv := []string{b.binary, "--data-dir", filepath.Join(b.dir, b.data), "--listen", b.addr, "--admin-listen", "off"}
	for _, setting := range b.settings {
		argv = append(argv, "--set", setting)
	}
	b.process, err = start(b.dir, b.name, nil, argv, nil)
	return err
}

// ready waits until the broker serves clients.
func (b *broker) ready(ctx context.Context) error {
	return await(ctx, b.name+" is ready", func() error {
		if err := b.alive(); err != nil {
			return fatal{err}
		}
		log, err := os.ReadFile(b.log)
		if err != nil {
			return err
		}
		m := ready.FindSubmatch(log[b.loggedBefore:])
		if m == nil {
			return errors.New("not ready")
		}
		b.addr = string(m[1])
		return nil
	})
}

// restartBroker kills the broker that coordinates the group, or stops it, and starts it again. A
// cluster has another coordinator in the meantime.
func (s *scenario) restartBroker(ctx context.Context, kill bool) error {
	b := s.brokers[0]
	if s.nodes > 1 {
		err := await(ctx, "the group has a coordinator", func() error {
			answer := s.adm.FindGroupCoordinators(ctx, group)[group]
			if answer.Err != nil {
				return answer.Err
			}
			b = s.brokers[answer.NodeID-1]
			return nil
		})
		if err != nil {
			return err
		}
	}
	if kill {
		b.kill()
	} else if err := b.stop(ctx); err != nil {
		return err
	}
	s.step("%s is down", b.name)
	if err := b.start(); err != nil {
		return err
	}
	return b.ready(ctx)
}
