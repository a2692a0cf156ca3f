// Command kgo writes and reads records with franz-go until a file exists, so that it pushes its
// metrics meanwhile. scripts/clients/telemetry.sh runs it; it speaks the protocol from outside, and
// does not know what the broker made of the metrics: the script asks for that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	brokers := flag.String("brokers", "127.0.0.1:9092", "comma-separated HOST:PORT")
	topic := flag.String("topic", "telemetry", "an existing topic")
	id := flag.String("id", "kgo", "how the client ids begin")
	stop := flag.String("stop", "", "the file that ends the program")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	err := run(ctx, strings.Split(*brokers, ","), *topic, *id, *stop)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, brokers []string, topic, id, stop string) error {
	// franz-go counts requests for nodes per client, so each of its clients is both.
	var clients []*kgo.Client
	defer func() {
		for _, cl := range clients {
			cl.Close()
		}
	}()
	for _, role := range []string{"producer", "consumer"} {
		opts := []kgo.Opt{kgo.SeedBrokers(brokers...), kgo.ClientID(id + "-" + role), kgo.DefaultProduceTopic(topic),
			kgo.WithLogger(metricsLog{})}
		if role == "consumer" {
			opts = append(opts, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(id), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		}
		cl, err := kgo.NewClient(opts...)
		if err != nil {
			return err
		}
		clients = append(clients, cl)
	}
	for ctx.Err() == nil {
		if _, err := os.Stat(stop); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := clients[0].ProduceSync(ctx, kgo.StringRecord("value")).FirstErr(); err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		clients[1].PollFetches(soon)
		cancel()
	}
	return nil
}

// metricsLog prints what franz-go says of its metrics.
type metricsLog struct{}

func (metricsLog) Level() kgo.LogLevel { return kgo.LogLevelDebug }

func (metricsLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if strings.Contains(msg, "client metrics") || strings.Contains(msg, "telemetry") {
		fmt.Println(level, msg, keyvals)
	}
}
