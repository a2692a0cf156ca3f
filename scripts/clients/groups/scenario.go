package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// patience bounds every wait. It is no requirement: a busy machine is not a failure.
	patience = 3 * time.Minute
	group    = "readers"
	topic    = "life-of-a-group"
	another  = "life-of-another"
)

// fatal ends a wait at once.
type fatal struct{ error }

// await calls ok until it returns nil.
func await(ctx context.Context, what string, ok func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := ok()
		if err == nil {
			return nil
		}
		if f := (fatal{}); errors.As(err, &f) || time.Now().After(deadline) {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s (%w): %w", what, err, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// scenario is one run.
type scenario struct {
	config
	world   *world
	brokers brokers
	cl      *kgo.Client
	adm     *kadm.Client
	members []*process // running members
	dead    []*process
	writer  *writer
	all     []place
	begin   time.Time
}

func run(ctx context.Context, c config) (err error) {
	s := &scenario{config: c, world: newWorld(), begin: time.Now()}
	s.brokers, err = startBrokers(ctx, c, s.session())
	defer func() {
		for _, m := range s.members {
			m.kill()
		}
		s.brokers.kill()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, s.lastWords())
		}
	}()
	if err != nil {
		return err
	}
	s.cl, err = kgo.NewClient(kgo.SeedBrokers(s.brokers.addrs()...), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(time.Second), kgo.ProducerBatchMaxBytes(16<<10),
		kgo.ProducerBatchCompression(kgo.GzipCompression())) // which every client can read
	if err != nil {
		return err
	}
	defer s.cl.Close()
	s.adm = kadm.NewClient(s.cl)
	s.writer = newWriter(s.cl, s.world)
	defer s.writer.stop()
	watching, stopped := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(watching)
	}()
	defer func() { stopped(); <-watched }()
	if err := s.play(ctx); err != nil {
		return errors.Join(err, s.world.err())
	}
	return s.verdict(ctx)
}

// watch reads the group's commits repeatedly.
func (s *scenario) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if now, err := s.commits(ctx); err == nil {
			s.world.commits(now)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (s *scenario) commits(ctx context.Context) (map[place]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answer, err := s.adm.FetchOffsets(ctx, group)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		return nil, err
	}
	now := map[place]int64{}
	answer.Each(func(o kadm.OffsetResponse) {
		now[place{o.Topic, o.Partition}] = o.At
	})
	return now, nil
}

// step prints the current step of a run.
func (s *scenario) step(format string, args ...any) {
	fmt.Printf("%6.1fs %s\n", time.Since(s.begin).Seconds(), fmt.Sprintf(format, args...))
}

// session returns the members' session timeout in milliseconds: short if a member must time out,
// long if it must return before its timeout.
func (s *scenario) session() string {
	if s.static {
		return "60000"
	}
	return "6000"
}

// join starts a member. Its number determines its name, its instance id and, in a mixed group, its
// protocol.
func (s *scenario) join(number int, name string) (*process, error) {
	protocol, subscribe, instance := s.protocol, topic, ""
	if protocol == "mixed" {
		protocol = []string{"consumer", "classic"}[number%2]
	}
	if s.static {
		instance = fmt.Sprintf("instance-%d", number)
	}
	if s.regex {
		subscribe = "^life-of-.*"
	}
	env := []string{"BOOTSTRAP=" + strings.Join(s.brokers.addrs(), ","), "GROUP=" + group, "MEMBER=" + name, "TOPIC=" + subscribe,
		"PROTOCOL=" + protocol, "ASSIGNOR=" + s.assignor, "INSTANCE=" + instance, "SESSION_MS=" + s.session()}
	out, err := os.Create(filepath.Join(s.dir, name+".out"))
	if err != nil {
		return nil, err
	}
	m, err := start(s.dir, name, env, s.program, func(line string) {
		fmt.Fprintf(out, "%.3f %s\n", time.Since(s.begin).Seconds(), line)
		ev, err := parseEvent(line)
		if err != nil {
			ev.kind = evError
		}
		s.world.handle(name, ev)
	})
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	s.members = append(s.members, m)
	return m, nil
}

// gone removes members that have ended.
func (s *scenario) gone(list ...*process) {
	for _, m := range list {
		s.members = slices.DeleteFunc(s.members, func(o *process) bool { return o == m })
		s.dead = append(s.dead, m)
		s.world.dead(m.name)
	}
}

// shared waits until the running members share all partitions, and then until they have committed
// all records that were written before.
func (s *scenario) shared(ctx context.Context) error {
	var names []string
	for _, m := range s.members {
		names = append(names, m.name)
	}
	who := strings.Join(names, ", ")
	err := await(ctx, who+" share the partitions", func() error {
		return s.check(s.world.distributed(s.all, names))
	})
	if err != nil {
		return err
	}
	// Wait for newer records than those of the previous wait, unless the writer has stopped.
	more := s.writer.count() + 200
	err = await(ctx, "more is written", func() error {
		if n := s.writer.count(); n < more && !s.writer.stopped() {
			return s.check(fmt.Errorf("%d of %d records are written", n, more))
		}
		return nil
	})
	if err != nil {
		return err
	}
	ends := s.writer.ends()
	err = await(ctx, who+" have committed all that was written", func() error {
		return s.check(s.world.behind(ends))
	})
	if err == nil {
		s.step("shared by %s", who)
	}
	return err
}

// check makes errors that cannot recover end the wait.
func (s *scenario) check(err error) error {
	if err == nil {
		return s.world.err()
	}
	for _, p := range append(s.brokers.processes(), s.members...) {
		if gone := p.alive(); gone != nil {
			return fatal{gone}
		}
	}
	if wrong := s.world.err(); wrong != nil {
		return fatal{wrong}
	}
	return err
}

// verdict checks the requirements at the end.
func (s *scenario) verdict(ctx context.Context) error {
	if err := s.writer.failed(); err != nil {
		return err
	}
	records, reads := s.world.unseen()
	if err := s.world.err(); err != nil {
		return err
	}
	if err := s.brokers.stop(ctx); err != nil {
		return err
	}
	if err := s.brokers.logged(); err != nil {
		return err
	}
	s.step("%d records, each seen; %d reads", records, reads)
	return nil
}

func (s *scenario) lastWords() string {
	var b strings.Builder
	for _, p := range append(append(s.brokers.processes(), s.dead...), s.members...) {
		fmt.Fprintf(&b, "--- %s said last:\n%s\n", p.name, p.tail())
	}
	return b.String()
}
