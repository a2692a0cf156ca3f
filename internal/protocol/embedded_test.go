package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// embeddedKinds are the embedded formats, each with a random value of a version and its decoder.
func embeddedKinds() map[string]struct {
	random func(rnd *rand.Rand, version int16) []byte
	decode func([]byte) (any, error)
	kmsg   func([]byte) (any, error)
} {
	return map[string]struct {
		random func(rnd *rand.Rand, version int16) []byte
		decode func([]byte) (any, error)
		kmsg   func([]byte) (any, error)
	}{
		"subscription": {
			func(rnd *rand.Rand, version int16) []byte {
				var v kmsg.ConsumerMemberMetadata
				randomize(rnd, reflect.ValueOf(&v).Elem())
				v.Version = version
				return v.AppendTo(nil)
			},
			func(p []byte) (any, error) { return DecodeSubscription(p) },
			func(p []byte) (any, error) {
				v := kmsg.NewConsumerMemberMetadata()
				err := v.ReadFrom(p)
				return v, err
			},
		},
		"assignment": {
			func(rnd *rand.Rand, version int16) []byte {
				var v kmsg.ConsumerMemberAssignment
				randomize(rnd, reflect.ValueOf(&v).Elem())
				v.Version = version
				return v.AppendTo(nil)
			},
			func(p []byte) (any, error) { return DecodeAssignment(p) },
			func(p []byte) (any, error) {
				v := kmsg.NewConsumerMemberAssignment()
				err := v.ReadFrom(p)
				return v, err
			},
		},
	}
}

// Whole bytes are decoded as kmsg does, in every version and later ones, and cut bytes are refused
// if kmsg refuses them.
func TestEmbeddedProtocolIsReadAsKmsgReadsIt(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	for name, k := range embeddedKinds() {
		for version := int16(-1); version <= 5; version++ {
			for range 20 {
				p := k.random(rnd, version)
				for cut := max(0, len(p)-100); cut <= len(p); cut++ {
					got, err := k.decode(p[:cut])
					want, wantErr := k.kmsg(p[:cut])
					if (err == nil) != (wantErr == nil) || err != nil && !errors.Is(err, ErrMalformed) {
						t.Fatalf("%s version %d cut at %d of %d: %v, kmsg says %v", name, version, cut, len(p), err, wantErr)
					}
					if err == nil && !reflect.DeepEqual(got, want) {
						t.Fatalf("%s version %d: %+v, want %+v", name, version, got, want)
					}
				}
			}
		}
	}
}

// A member may claim to own as many partitions as its bytes could contain, in entries of no bytes:
// that costs a check and no memory.
func TestFault11EmbeddedCountsThatLie(t *testing.T) {
	claim := binary.BigEndian.AppendUint16(nil, 1)
	claim = binary.BigEndian.AppendUint32(claim, 0)          // topics
	claim = binary.BigEndian.AppendUint32(claim, 0xffffffff) // no user data
	claim = binary.BigEndian.AppendUint32(claim, 1<<20)      // owned partitions
	claim = append(claim, make([]byte, 1<<20)...)
	for name, p := range map[string][]byte{
		"claims":     claim,
		"empty ones": append(claim[:len(claim)-1<<20], bytes.Repeat([]byte{0, 0, 0, 0, 0, 0}, 1<<20)...),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := DecodeSubscription(p); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: %d bytes were allocated for %d", name, used, len(p))
		}
	}
}

func FuzzEmbedded(f *testing.F) {
	rnd := rand.New(rand.NewPCG(11, 12))
	for _, k := range embeddedKinds() {
		for version := range int16(4) {
			f.Add(k.random(rnd, version))
		}
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		for name, k := range embeddedKinds() {
			if got, err := k.decode(p); err == nil {
				if want, err := k.kmsg(p); err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("%s: %+v, want %+v, %v", name, got, want, err)
				}
			}
		}
	})
}
