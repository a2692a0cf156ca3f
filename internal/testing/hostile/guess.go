package hostile

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TooDifferent is the absolute value of Welch's t from which two series of times count as
// different: the threshold of test vector leakage assessment (ISO/IEC 17825), which less than 1 in
// 100,000 equal pairs reach.
const TooDifferent = 4.5

// Guess is an attempt to find out from the time of an answer whether users exist.
type Guess struct {
	Name string
	// Answer is what is timed.
	Answer string
	// Known and Unknown are the medians for users that exist, and for others.
	Known, Unknown time.Duration
	// T is Welch's t of the one with the largest absolute value: of all times, and of those below
	// the quantiles 0.5, 0.9 and 0.99, since the slowest hide small differences.
	T float64
}

// Guesser times the answers to logins at a broker that listens on a loopback address.
type Guesser struct {
	Addr string
	// Known are users that exist. Wrong passwords are tried as them and as others with names of the
	// same length.
	Known, Unknown []string
	tried          uint32
}

// Guesses times n logins as known users and n as others, in random order, for each answer that
// depends on the user.
func (g *Guesser) Guesses(ctx context.Context, n int) ([]Guess, error) {
	all := []struct {
		name, answer, mechanism string
		messages                func(user string) [][]byte // the answer to the last one is timed
	}{
		{"scram-256", "first answer of SCRAM-SHA-256", "SCRAM-SHA-256", func(user string) [][]byte { return [][]byte{scramFirst(user)} }},
		{"scram-512", "first answer of SCRAM-SHA-512", "SCRAM-SHA-512", func(user string) [][]byte { return [][]byte{scramFirst(user)} }},
		{"scram-proof", "answer to a wrong proof of SCRAM-SHA-512", "SCRAM-SHA-512",
			func(user string) [][]byte { return [][]byte{scramFirst(user), nil} }},
		{"plain", "answer to a wrong password of PLAIN", "PLAIN",
			func(user string) [][]byte { return [][]byte{[]byte("\x00" + user + "\x00wrong")} }},
	}
	var guesses []Guess
	for _, a := range all {
		var times [2][]float64 // in ns, of users that exist and of others
		for len(times[0]) < n || len(times[1]) < n {
			which, names := 0, g.Known
			if rand.IntN(2) == 1 {
				which, names = 1, g.Unknown
			}
			d, err := g.try(ctx, a.mechanism, a.messages(names[rand.IntN(len(names))]))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a.name, err)
			}
			times[which] = append(times[which], float64(d))
		}
		guesses = append(guesses, Guess{Name: a.name, Answer: a.answer, Known: medianOf(times[0]), Unknown: medianOf(times[1]),
			T: leak(times[0], times[1])})
	}
	return guesses, nil
}

// scramNonce is the client's part of the nonce in all logins.
const scramNonce = "0123456789"

func scramFirst(user string) []byte { return []byte("n,,n=" + user + ",r=" + scramNonce) }

// scramLast is a message with a wrong proof that fits the broker's first one.
func scramLast(first []byte) []byte {
	nonce, _, _ := bytes.Cut(first, []byte(","))
	proof := base64.StdEncoding.EncodeToString(make([]byte, sha512.Size))
	return []byte("c=biws," + string(nonce) + ",p=" + proof)
}

// try logs in on a new connection from an address of its own, whose failures nothing delays, and
// returns how long the last answer took.
func (g *Guesser) try(ctx context.Context, mechanism string, messages [][]byte) (took time.Duration, err error) {
	g.tried++
	from := netip.AddrFrom4([4]byte{127, byte(1 + g.tried>>16), byte(g.tried >> 8), byte(g.tried)})
	c, err := dialFrom(ctx, g.Addr, &net.TCPAddr{IP: from.AsSlice()})
	if err != nil {
		return 0, err
	}
	defer func() { _ = errors.Join(c.reset(), c.Close()) }() // which frees the port at once
	begin := kmsg.NewPtrSASLHandshakeRequest()
	begin.Version, begin.Mechanism = 1, mechanism
	if _, err := c.Ask(begin); err != nil {
		return 0, err
	}
	var answer []byte
	for i, m := range messages {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.Version, req.SASLAuthBytes = 1, m
		if m == nil {
			req.SASLAuthBytes = scramLast(answer)
		}
		sent := time.Now()
		resp, err := c.Ask(req)
		took = time.Since(sent)
		if err != nil {
			return 0, err
		}
		a := resp.(*kmsg.SASLAuthenticateResponse)
		answer = a.SASLAuthBytes
		last := i == len(messages)-1
		if code := a.ErrorCode; code != 0 && (!last || code != kerr.SaslAuthenticationFailed.Code) {
			return 0, fmt.Errorf("%w: %s", errAnswer, codeName(code))
		}
	}
	return took, nil
}

// leak returns the t of Guess.T.
func leak(a, b []float64) float64 {
	all := slices.Sorted(slices.Values(slices.Concat(a, b)))
	worst := welch(a, b)
	for _, q := range []float64{0.5, 0.9, 0.99} {
		limit := all[int(q*float64(len(all)-1))]
		below := func(x []float64) []float64 {
			return slices.DeleteFunc(slices.Clone(x), func(v float64) bool { return v > limit })
		}
		if t := welch(below(a), below(b)); math.Abs(t) > math.Abs(worst) {
			worst = t
		}
	}
	return worst
}

// welch returns Welch's t of two samples; 0 if one has fewer than two values.
func welch(a, b []float64) float64 {
	if len(a) < 2 || len(b) < 2 {
		return 0
	}
	meanA, errA := meanAndError(a)
	meanB, errB := meanAndError(b)
	if meanA == meanB {
		return 0
	}
	return (meanA - meanB) / math.Sqrt(errA+errB)
}

// meanAndError returns a sample's mean, and the square of its standard error.
func meanAndError(x []float64) (mean, squared float64) {
	for _, v := range x {
		mean += v
	}
	n := float64(len(x))
	mean /= n
	for _, v := range x {
		squared += (v - mean) * (v - mean)
	}
	return mean, squared / (n - 1) / n
}

func medianOf(ns []float64) time.Duration {
	sorted := slices.SortedFunc(slices.Values(ns), cmp.Compare[float64])
	return time.Duration(sorted[len(sorted)/2])
}
