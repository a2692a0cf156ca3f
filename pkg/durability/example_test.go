package durability_test

import (
	"fmt"
	"time"

	"github.com/chronik-io/chronik/pkg/durability"
)

// A program that embeds a broker adds a profile of its own.
func Example() {
	set, err := durability.NewSet(durability.Profile{
		Name:       "night",
		Doc:        "The nightly import: large groups.",
		Ack:        durability.Synced,
		Sync:       durability.SyncGroup,
		MaxWait:    200 * time.Millisecond,
		MaxRecords: 100_000,
		MaxBytes:   200_000_000,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	night, err := set.Lookup("night")
	fmt.Println(night, err)

	_, err = set.Lookup("nite")
	fmt.Println(err)
	// Output:
	// night: ack synced, sync group, waits at most 200ms, groups of at most 100000 records and 200000000 bytes <nil>
	// unknown durability profile "nite": the known ones are sync, low, medium, high, ultra, interval, os, night
}

// What does acks=all promise on three replicas, two of which must be in sync?
func ExampleProfile_Promise() {
	set, err := durability.NewSet()
	if err != nil {
		fmt.Println(err)
		return
	}
	acksAll := durability.Setting{Acks: -1, Replicas: 3, MinISR: 2}
	for _, name := range []string{"sync", "interval"} {
		p, err := set.Lookup(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, f := range durability.Failures() {
			fmt.Printf("%s, %v: %v\n", name, f, p.Promise(acksAll, f))
		}
	}
	// Output:
	// sync, process crash: nothing acknowledged is lost
	// sync, power loss of the leader: nothing acknowledged is lost
	// sync, loss of all but one ISR member: nothing acknowledged is lost
	// interval, process crash: nothing acknowledged is lost
	// interval, power loss of the leader: nothing acknowledged is lost if a remaining in-sync replica kept power; otherwise at most the records of 50ms and one sync are lost
	// interval, loss of all but one ISR member: nothing acknowledged is lost if a remaining in-sync replica kept power; otherwise at most the records of 50ms and one sync are lost
}

// A group waits only while a producer is expected to send.
func ExampleProfile_Close() {
	set, err := durability.NewSet()
	if err != nil {
		fmt.Println(err)
		return
	}
	high, err := set.Lookup("high")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(high.Close(durability.Group{Records: 90, Bytes: 32_000, Age: 10 * time.Millisecond, Absent: 38}))
	fmt.Println(high.Close(durability.Group{Records: 128, Bytes: 45_000, Age: 12 * time.Millisecond, Absent: 0}))
	// Output:
	// false 40ms
	// true 0s
}
