package chronik_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/pkg/chronik"
	"github.com/chronik-io/chronik/pkg/durability"
)

// A broker in memory, on a free port. In a test, StartTest does the first half
// and the Close in one line.
func Example() {
	ctx := context.Background()
	broker, err := chronik.Start(ctx, chronik.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { fmt.Println("closed:", broker.Close()) }()

	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.AllowAutoTopicCreation(),
		kgo.DefaultProduceTopic("greetings"), kgo.ConsumeTopics("greetings"))
	if err != nil {
		log.Print(err)
		return
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, kgo.StringRecord("hello")).FirstErr(); err != nil {
		log.Print(err)
		return
	}
	for it := client.PollFetches(ctx).RecordIter(); !it.Done(); {
		r := it.Next()
		fmt.Printf("%s-%d@%d: %s\n", r.Topic, r.Partition, r.Offset, r.Value)
	}
	// Output:
	// greetings-0@0: hello
	// closed: <nil>
}

// A broker on a directory keeps what it acknowledged.
func ExampleStart_directory() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "chronik")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	for _, word := range []string{"one", "two"} {
		broker, err := chronik.Start(ctx, chronik.Options{Dir: dir})
		if err != nil {
			log.Print(err)
			return
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("words"))
		if err != nil {
			log.Print(err)
			return
		}
		r, err := client.ProduceSync(ctx, kgo.StringRecord(word)).First()
		fmt.Println(word, "at", r.Offset, err)
		client.Close()
		if err := broker.Close(); err != nil {
			log.Print(err)
		}
	}
	// Output:
	// one at 0 <nil>
	// two at 1 <nil>
}

// A durability profile of the program's own, and settings by chronikd's names.
func ExampleStart_profile() {
	patient := durability.Profile{
		Name: "patient", Doc: "nightly imports", Ack: durability.Synced, Sync: durability.SyncGroup,
		MaxWait: 20 * time.Millisecond, MaxRecords: 5000, MaxBytes: 20 << 20,
	}
	broker, err := chronik.Start(context.Background(), chronik.Options{
		Profile: "patient", Profiles: []durability.Profile{patient},
		Settings: map[string]string{"num.partitions": "4"},
	})
	fmt.Println(err)
	if err == nil {
		fmt.Println(broker.Close())
	}
	// Output:
	// <nil>
	// <nil>
}
