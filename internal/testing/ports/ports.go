// Package ports chooses the ports of brokers that a test restarts. It does not know what listens on
// them.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// The ports are below the kernel's ephemeral ports, which it gives to any connection: a broker that
// was stopped finds its port free when it restarts.
const (
	lowest  = 11000
	highest = 19000 // exclusive
	block   = 50    // ports of a block, with the one that claims it
)

var chosen struct {
	sync.Mutex
	claims     []net.Listener // kept for the life of the process
	next, left int
}

// Free returns the first of n ports in a row, at most 49, that are free on all addresses. No two
// calls return the same port, in this process or in another one that is running: a process claims
// blocks of ports by listening on the first port of each.
func Free(n int) (int, error) {
	if n >= block {
		return 0, fmt.Errorf("%d ports in a row: at most %d are to be had", n, block-1)
	}
	chosen.Lock()
	defer chosen.Unlock()
	for range 1000 {
		if chosen.left < n {
			first := lowest + block*rand.IntN((highest-lowest)/block)
			if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", first)); err == nil {
				chosen.claims = append(chosen.claims, l)
				chosen.next, chosen.left = first+1, block-1
			}
			continue
		}
		first := chosen.next
		chosen.next, chosen.left = chosen.next+n, chosen.left-n
		if free(first, n) {
			return first, nil
		}
	}
	return 0, errors.New("no ports are free")
}

// Loopback is one free port of Free, as an address of 127.0.0.1.
func Loopback() (string, error) {
	port, err := Free(1)
	return fmt.Sprint("127.0.0.1:", port), err
}

func free(first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", fmt.Sprint(":", port))
		if err != nil {
			return false
		}
		if l.Close() != nil {
			return false
		}
	}
	return true
}
