// Command groups runs real consumers through the life of a consumer group: members join, leave and
// are killed, the topic grows, and the broker is killed during all of that. Afterwards every
// acknowledged record must have been read, and no member may have restarted before a committed
// offset.
//
//	groups [flags] -- PROGRAM [ARG...]
//
// PROGRAM is one consumer, of any client. Variables configure it, and it reports its actions on
// standard output; see events.go. "groups member" is such a program for franz-go. The command
// starts its own brokers, with their own ports and directories, because it kills them: the group's
// coordinator each time. The command knows only the broker's protocol and its flags.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// config is the command line.
type config struct {
	chronikd string
	dir      string
	nodes    int
	protocol string // classic, consumer, or mixed: alternating
	assignor string
	static   bool
	regex    bool
	program  []string
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "member" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		err := consume(ctx)
		stop()
		exit(err)
		return
	}
	var c config
	flag.StringVar(&c.chronikd, "chronikd", "bin/chronikd", "the broker's binary")
	flag.StringVar(&c.dir, "dir", "", "where data and logs go; it must be there")
	flag.IntVar(&c.nodes, "nodes", 1, "brokers: 1, or 3 that form a cluster")
	flag.StringVar(&c.protocol, "protocol", "classic", "classic, consumer (KIP-848) or mixed")
	flag.StringVar(&c.assignor, "assignor", "", "the client's name of an assignor; empty: its default")
	flag.BoolVar(&c.static, "static", false, "members with instance ids")
	flag.BoolVar(&c.regex, "regex", false, "subscribe by a regular expression; a topic more comes in the middle")
	flag.Parse()
	c.program = flag.Args()
	if len(c.program) == 0 || c.dir == "" {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	err := run(ctx, c)
	cancel()
	stop()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
