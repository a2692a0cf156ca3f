//go:build ignore

// Command sarama is a group member that uses sarama's consumer; see events.go. ../sarama-group.sh
// builds it as a separate module, so that the tree does not depend on sarama. It decides nothing:
// main.go says what must happen, and what was wrong.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"
)

var out sync.Mutex

func say(format string, args ...any) {
	out.Lock()
	defer out.Unlock()
	fmt.Printf(format+"\n", args...)
}

// handler reads the records of a session. Sarama does not report whether a commit succeeded, so it
// prints no C.
type handler struct{}

func places(s sarama.ConsumerGroupSession) string {
	var list []string
	for topic, partitions := range s.Claims() {
		for _, p := range partitions {
			list = append(list, fmt.Sprintf("%s:%d", topic, p))
		}
	}
	return strings.Join(list, " ")
}

func (handler) Setup(s sarama.ConsumerGroupSession) error {
	say("A %s", places(s))
	return nil
}

func (handler) Cleanup(s sarama.ConsumerGroupSession) error {
	say("L %s", places(s))
	return nil
}

func (handler) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case m, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			say("R %s %d %d %s", m.Topic, m.Partition, m.Offset, m.Value)
			s.MarkMessage(m, "")
		case <-tick.C:
			s.Commit()
		case <-s.Context().Done():
			return nil
		}
	}
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version, c.ClientID = sarama.MaxVersion, os.Getenv("MEMBER")
	c.Metadata.RefreshFrequency = time.Second
	session, err := strconv.Atoi(os.Getenv("SESSION_MS"))
	if err != nil {
		log.Fatal(err)
	}
	c.Consumer.Group.Session.Timeout = time.Duration(session) * time.Millisecond
	c.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	c.Consumer.Group.InstanceId = os.Getenv("INSTANCE")
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Return.Errors = true
	strategies := map[string]sarama.BalanceStrategy{"": sarama.NewBalanceStrategyRange(), "range": sarama.NewBalanceStrategyRange(),
		"roundrobin": sarama.NewBalanceStrategyRoundRobin(), "sticky": sarama.NewBalanceStrategySticky()}
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategies[os.Getenv("ASSIGNOR")]}
	return c
}

func main() {
	sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	group, err := sarama.NewConsumerGroup(strings.Split(os.Getenv("BOOTSTRAP"), ","), os.Getenv("GROUP"), config())
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for err := range group.Errors() {
			say("E %v", err)
		}
	}()
	for ctx.Err() == nil {
		if err := group.Consume(ctx, []string{os.Getenv("TOPIC")}, handler{}); err != nil {
			say("E consume: %v", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
	if err := group.Close(); err != nil {
		log.Fatal(err)
	}
}
