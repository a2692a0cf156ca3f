package protocol

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// fullTable supports every version of every API for which the guard has a layout.
func fullTable(t testing.TB) *Table {
	t.Helper()
	var apis []API
	for key := range requestLayouts() {
		apis = append(apis, API{Key: key, Max: kmsg.RequestForKey(key).MaxVersion()})
	}
	table, err := NewTable(kmsg.RequestForKey, apis...)
	must.OK(t, err)
	return table
}

func eachVersion(t testing.TB, table *Table, f func(a API, version int16)) {
	t.Helper()
	for _, a := range table.APIs() {
		for v := a.Min; v <= a.Max; v++ {
			f(a, v)
		}
	}
}

// randomize fills a kmsg value at random, sometimes with unknown tagged fields.
func randomize(rnd *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if tags, ok := v.Addr().Interface().(*kmsg.Tags); ok {
			for range rnd.IntN(8) - 5 {
				tags.Set(100+rnd.Uint32N(1000), make([]byte, rnd.IntN(20)))
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Version" {
				randomize(rnd, v.Field(i))
			}
		}
	case reflect.Slice:
		n := rnd.IntN(4)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = rnd.IntN(300)
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			randomize(rnd, v.Index(i))
		}
	case reflect.Pointer:
		if rnd.IntN(2) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			randomize(rnd, v.Elem())
		}
	case reflect.String:
		v.SetString(strings.Repeat("x", rnd.IntN(200)))
	case reflect.Bool:
		v.SetBool(rnd.IntN(2) == 0)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rnd.Int64() >> (64 - v.Type().Bits()))
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(uint64(rnd.IntN(1 << v.Type().Bits())))
	case reflect.Float64:
		v.SetFloat(rnd.NormFloat64())
	default:
		panic("a kmsg field of kind " + v.Kind().String())
	}
}

func randomRequest(rnd *rand.Rand, key, version int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	randomize(rnd, reflect.ValueOf(req).Elem())
	req.SetVersion(version)
	return req
}

func TestGuardAcceptsEveryRequestAndItsEndIsTheBodysEnd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	table := fullTable(t)
	eachVersion(t, table, func(a API, version int16) {
		for range 30 {
			body := randomRequest(rnd, a.Key, version).AppendTo(nil)
			if err := table.Check(a.Key, version, body); err != nil {
				t.Fatalf("%s version %d: %v", a.Name(), version, err)
			}
			v := table.version(a.Key, version)
			g := guard{cursor: cursor{src: body}, flexible: v.flexible, budget: 1 << 30}
			if g.structure(v.body); len(g.src) != 0 {
				t.Fatalf("%s version %d: layout leaves %d of %d bytes", a.Name(), version, len(g.src), len(body))
			}
		}
	})
}

// A body that is cut anywhere is refused if kmsg refuses it, and only then.
func TestGuardCutAtEveryByte(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	table := fullTable(t)
	eachVersion(t, table, func(a API, version int16) {
		body := randomRequest(rnd, a.Key, version).AppendTo(nil)
		for cut := range min(len(body), 200) {
			req := kmsg.RequestForKey(a.Key)
			req.SetVersion(version)
			guard, reader := table.Check(a.Key, version, body[:cut]), req.ReadFrom(body[:cut])
			if (guard == nil) != (reader == nil) {
				t.Fatalf("%s version %d cut at %d of %d: guard %v, kmsg %v", a.Name(), version, cut, len(body), guard, reader)
			}
		}
	})
}

// TestFault11CountsThatLie puts a count of 2^31-1 (and others) at every position of a request: for
// any body that passes the guard, decoding allocates in proportion to its bytes.
func TestFault11CountsThatLie(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	table := fullTable(t)
	lies := [][]byte{{0x7f, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0xff, 0x07}, {0xff, 0xff, 0xff, 0xff, 0x0f}, {0, 0, 1, 0}}
	eachVersion(t, table, func(a API, version int16) {
		honest := randomRequest(rnd, a.Key, version).AppendTo(nil)
		for at := range min(len(honest), 60) {
			for _, lie := range lies {
				body := append(append([]byte{}, honest[:at]...), lie...)
				body = append(body, honest[min(len(honest), at+len(lie)):]...)
				if used := decodeCost(table, a.Key, version, body); used > freeCost+uint64(64*len(body)) {
					t.Fatalf("%s version %d, %x at %d: %d bytes allocated for %d", a.Name(), version, lie, at, used, len(body))
				}
			}
		}
	})
}

// decodeCost returns how much decoding allocates. A body that the guard refuses costs an error
// value and is not measured, because the measurement stops the world.
func decodeCost(table *Table, key, version int16, body []byte) uint64 {
	if table.Check(key, version, body) != nil {
		return 0
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = table.Decode(key, version, body)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestGuardRefusesAMillionEmptyNames(t *testing.T) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	req.Topics = make([]kmsg.MetadataRequestTopic, 1_000_000)
	for i := range req.Topics {
		req.Topics[i].Topic = kmsg.StringPtr("")
	}
	if err := fullTable(t).Check(req.Key(), 9, req.AppendTo(nil)); !errors.Is(err, ErrMalformed) {
		t.Fatalf("got %v", err)
	}
}

func TestGuardAcceptsLargeHonestRequests(t *testing.T) {
	table := fullTable(t)
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 17
	fetch.Topics = make([]kmsg.FetchRequestTopic, 100_000)
	for i := range fetch.Topics {
		fetch.Topics[i].Partitions = []kmsg.FetchRequestTopicPartition{kmsg.NewFetchRequestTopicPartition()}
	}
	meta := kmsg.NewPtrMetadataRequest()
	meta.Version = 12
	meta.Topics = make([]kmsg.MetadataRequestTopic, 100_000)
	for i := range meta.Topics {
		meta.Topics[i].Topic = kmsg.StringPtr("orders-0123")
	}
	for _, req := range []kmsg.Request{fetch, meta} {
		if err := table.Check(req.Key(), req.GetVersion(), req.AppendTo(nil)); err != nil {
			t.Error(err)
		}
	}
}

// TestStructCostCoversEveryStruct measures the memory of an array of each struct.
func TestStructCostCoversEveryStruct(t *testing.T) {
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i).Type
			if f.Kind() == reflect.Slice && f.Elem().Kind() == reflect.Struct {
				if size := f.Elem().Size(); size > structCost {
					t.Errorf("%s has %d bytes, counted are %d", f.Elem(), size, structCost)
				}
				walk(f.Elem())
			}
		}
	}
	for key := range requestLayouts() {
		walk(reflect.TypeOf(kmsg.RequestForKey(key)).Elem())
	}
}

func FuzzGuard(f *testing.F) {
	rnd := rand.New(rand.NewPCG(7, 8))
	table := fullTable(f)
	eachVersion(f, table, func(a API, version int16) {
		f.Add(a.Key, version, randomRequest(rnd, a.Key, version).AppendTo(nil))
	})
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		if !table.Supports(key, version) || len(body) > 1<<16 {
			return
		}
		err := table.Check(key, version, body)
		if err != nil {
			return // kmsg might take minutes for it
		}
		req := kmsg.RequestForKey(key)
		req.SetVersion(version)
		if err := req.ReadFrom(body); err != nil && !hasKnownTags(key) {
			t.Fatalf("the guard lets pass what kmsg refuses: %v", err)
		}
	})
}

// hasKnownTags names the requests with tagged fields of their own, whose content kmsg reads and the
// guard does not.
func hasKnownTags(key int16) bool { return key == int16(kmsg.Fetch) }

// However many bytes the request has: an entry counts more than it takes when it is decoded.
func TestGuardBoundsTheEntriesOfALargeRequest(t *testing.T) {
	table := fullTable(t)
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Version = 6
	for range 2_000_000 {
		groups.Groups = append(groups.Groups, "abcdefghijkl")
	}
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Version = 9
	offsets.Groups = []kmsg.OffsetFetchRequestGroup{{Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t",
		Partitions: make([]int32, 1_000_000)}}}}
	if err := table.Check(offsets.Key(), 9, offsets.AppendTo(nil)); err != nil {
		t.Errorf("a million partitions: %v", err)
	}
	offsets.Groups[0].Topics[0].Partitions = make([]int32, 4_000_000)
	for _, req := range []kmsg.Request{groups, offsets} {
		if err := table.Check(req.Key(), req.GetVersion(), req.AppendTo(nil)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%T: %v", req, err)
		}
	}
}

func TestProduceViewRefusesAHundredThousandPartitionsOfNothing(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: make([]kmsg.ProduceRequestTopicPartition, 100_000)}}
	var v ProduceView
	if err := v.Parse(9, req.AppendTo(nil)); !errors.Is(err, ErrMalformed) || v.Partitions() != 0 {
		t.Errorf("%d partitions, %v", v.Partitions(), err)
	}
	for i := range req.Topics[0].Partitions {
		req.Topics[0].Partitions[i].Records = make([]byte, 61+7) // the smallest batch
	}
	if err := v.Parse(9, req.AppendTo(nil)); err != nil || v.Partitions() != 100_000 {
		t.Errorf("%d partitions, %v", v.Partitions(), err)
	}
	req.Topics = make([]kmsg.ProduceRequestTopic, 1_000_000)
	if err := v.Parse(9, req.AppendTo(nil)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a million empty topics: %v", err)
	}
}

// Decoding a large request takes about as much memory as the guard returns, which callers charge
// for.
func TestTheCostOfARequestIsWhatDecodingTakes(t *testing.T) {
	table := fullTable(t)
	names, numbers := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrDescribeLogDirsRequest()
	groups := kmsg.NewPtrDeleteGroupsRequest()
	one := kmsg.NewDescribeLogDirsRequestTopic()
	one.Topic = "t"
	for i := range 20_000 {
		name := fmt.Sprint("a topic with a name of its own ", i)
		names.Topics = append(names.Topics, kmsg.MetadataRequestTopic{Topic: &name})
		groups.Groups = append(groups.Groups, name)
		one.Partitions = append(one.Partitions, int32(i))
	}
	numbers.Topics = append(numbers.Topics, one)
	for _, req := range []kmsg.Request{names, numbers, groups} {
		req.SetVersion(2)
		body := req.AppendTo(nil)
		_, cost, err := table.DecodeCost(req.Key(), 2, body)
		must.OK(t, err)
		if used := decodeCost(table, req.Key(), 2, body); used > 2*uint64(cost) || uint64(cost) > 10*used {
			t.Errorf("%s: decoding takes %d bytes, and is said to take %d", kmsg.NameForKey(req.Key()), used, cost)
		}
	}
}

// An API may bound its requests more tightly than the default.
func TestMaxCostBoundsOneAPI(t *testing.T) {
	req := kmsg.NewPtrDeleteGroupsRequest()
	for range 50_000 {
		req.Groups = append(req.Groups, strings.Repeat("x", 40))
	}
	body := req.AppendTo(nil)
	for most, want := range map[int]error{0: nil, 1 << 20: ErrMalformed} {
		table, err := NewTable(kmsg.RequestForKey, API{Key: req.Key(), Max: 2, MaxCost: most})
		must.OK(t, err)
		if err := table.Check(req.Key(), 0, body); !errors.Is(err, want) {
			t.Errorf("bound %d: %v, want %v", most, err, want)
		}
	}
}
