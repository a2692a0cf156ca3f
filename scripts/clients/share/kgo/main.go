// Command kgo is members of a share group of franz-go; see ../../share.sh, which says what is
// checked. It reports what it received, and decides nothing about it.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// connection returns the options of SETTINGS, a file for librdkafka, or those of BOOTSTRAP.
func connection() []kgo.Opt {
	if os.Getenv("SETTINGS") == "" {
		return []kgo.Opt{kgo.SeedBrokers(strings.Split(os.Getenv("BOOTSTRAP"), ",")...)}
	}
	set := map[string]string{}
	for line := range strings.Lines(string(must(os.ReadFile(os.Getenv("SETTINGS"))))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		set[name] = value
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(must(os.ReadFile(set["ssl.ca.location"])))
	return []kgo.Opt{
		kgo.SeedBrokers(set["bootstrap.servers"]),
		kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),
		kgo.SASL(scram.Auth{User: set["sasl.username"], Pass: set["sasl.password"]}.AsSha512Mechanism()),
	}
}

// story is what is known about the records.
type story struct {
	topic, group string
	released     map[string]int32 // the delivery count of an answered release
	finished     map[string]bool  // acknowledged or rejected: true if that was answered
}

type member struct {
	*story
	cl     *kgo.Client
	failed map[int32]bool // partitions with an acknowledgement that failed
}

func (s *story) member() *member {
	m := &member{story: s}
	m.cl = must(kgo.NewClient(append(connection(), kgo.ShareGroup(s.group), kgo.ConsumeTopics(s.topic), kgo.ShareMaxRecords(20),
		kgo.ShareAckCallback(func(_ *kgo.Client, results kgo.ShareAckResults) {
			for _, r := range results {
				m.failed[r.Partition] = m.failed[r.Partition] || r.Err != nil
			}
		}))...))
	return m
}

// take polls once, and acknowledges what it gets.
func (m *member) take() (taken []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	records := m.cl.PollRecords(ctx, 20).Records()
	cancel()
	acks := make([]kgo.AckStatus, len(records))
	m.failed = map[int32]bool{} // no acknowledgement is under way
	for i, r := range records {
		value := string(r.Value)
		if m.finished[value] {
			log.Fatalf("%s is delivered again after its acknowledgement was answered", value)
		}
		if count := m.released[value]; count >= r.DeliveryCount() {
			log.Fatalf("%s has delivery count %d after an answered release with %d", value, r.DeliveryCount(), count)
		}
		acks[i] = kgo.AckAccept
		switch {
		case strings.HasSuffix(value, "7"):
			acks[i] = kgo.AckReject
		case strings.HasSuffix(value, "3") && r.DeliveryCount() == 1:
			acks[i] = kgo.AckRelease
		}
		r.Ack(acks[i])
		taken = append(taken, value)
	}
	if len(records) == 0 {
		return nil
	}
	flush, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	must(0, m.cl.FlushAcks(flush))
	for i, r := range records {
		answered := !m.failed[r.Partition]
		if acks[i] != kgo.AckRelease {
			m.finished[string(r.Value)] = answered
		} else if answered {
			m.released[string(r.Value)] = r.DeliveryCount()
		}
	}
	return taken
}

func (s *story) write(values ...string) {
	cl := must(kgo.NewClient(append(connection(), kgo.DefaultProduceTopic(s.topic), kgo.ProducerBatchMaxBytes(600),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...))
	defer cl.Close()
	var records []*kgo.Record
	for i, v := range values {
		records = append(records, &kgo.Record{Value: []byte(v), Partition: int32(i % 2)})
	}
	must(0, cl.ProduceSync(context.Background(), records...).FirstErr())
}

func (s *story) play(n int) {
	var values []string
	for i := range n {
		values = append(values, fmt.Sprint("value ", i))
	}
	s.write(values...)
	members := []*member{s.member(), s.member()}
	for shown := 0; len(s.finished) < n; {
		for _, m := range members {
			m.take()
		}
		for ; shown < len(s.finished)/100; shown++ {
			fmt.Println("finished", (shown+1)*100)
		}
	}
	for _, m := range members {
		m.cl.Close()
	}
	s.write("end 0", "end 1")
	last := s.member()
	for ends := 0; ends < 2; {
		for _, value := range last.take() {
			if strings.HasPrefix(value, "end") {
				ends++
			}
		}
	}
	last.cl.Close()
	if len(s.released) == 0 {
		log.Fatal("no release was answered")
	}
	fmt.Printf("%d records, %d of them released\n", n, len(s.released))
}

// says waits for the error that a member gets.
func (s *story) says() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cl := must(kgo.NewClient(append(connection(), kgo.ShareGroup(s.group), kgo.ConsumeTopics(s.topic))...))
	defer cl.Close()
	for ctx.Err() == nil {
		if err := cl.PollFetches(ctx).Err(); err != nil {
			return err
		}
	}
	return errors.New("no error")
}

func main() {
	log.SetFlags(0)
	s := &story{topic: os.Args[1], group: os.Args[2], released: map[string]int32{}, finished: map[string]bool{}}
	if os.Args[3] == "says" {
		fmt.Println(s.says())
		return
	}
	s.play(must(strconv.Atoi(os.Args[3])))
}
