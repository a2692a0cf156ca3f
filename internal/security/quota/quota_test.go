package quota

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chronik-io/chronik/internal/security/refusals"
	"github.com/chronik-io/chronik/internal/view"
)

// clock is a clock that a test moves.
type clock struct{ now time.Duration }

func (c *clock) time() time.Duration { return c.now }

// limited returns the quota of an entity with one limit.
func limited(e Entity, l Limit, rate float64) Quota {
	q := Quota{Entity: e}
	q.Limits[l] = rate
	return q
}

func keeperOf(c *clock, quotas ...Quota) *Keeper {
	k := NewKeeper(c.time)
	k.Set(Compile(slices.Values(quotas)))
	return k
}

// Of Kafka's eight quotas the most specific one counts, alone; the owner of the bucket follows from
// which it is.
func TestTheMostSpecificQuotaCounts(t *testing.T) {
	u, c := Of("bob"), Of("app")
	both, user, client := Entity{User: u, Client: c}, Entity{User: u}, Entity{Client: c}
	order := []struct{ rule, owner Entity }{
		{Entity{User: u, Client: c}, both}, {Entity{User: u, Client: Any()}, both}, {Entity{User: u}, user},
		{Entity{User: Any(), Client: c}, both}, {Entity{User: Any(), Client: Any()}, both}, {Entity{User: Any()}, user},
		{Entity{Client: c}, client}, {Entity{Client: Any()}, client},
	}
	var all []Quota
	for i, x := range order {
		all = append(all, limited(x.rule, Produced, float64(1000+i)))
	}
	for i, want := range order {
		rules := Compile(slices.Values(all[i:]))
		got, ok := rules.Client(Produced, "bob", "app")
		if !ok || got.Rate != float64(1000+i) || got.Rule != want.rule || got.Owner != want.owner {
			t.Errorf("%d: %+v, want that of %v for %v", i, got, want.rule, want.owner)
		}
		if _, ok := rules.Client(Fetched, "bob", "app"); ok {
			t.Error("a quota for another limit counts")
		}
	}
	if _, ok := Compile(slices.Values(all[:3])).Client(Produced, "alice", "app"); ok {
		t.Error("a quota of another user counts")
	}
	if Compile(slices.Values[[]Quota](nil)) != nil {
		t.Error("rules without quotas")
	}
}

// The table in the design of quotas: over ten seconds a client gets at most 3 % more than its rate,
// over one second 30 %, and no less than its rate, whatever the size of its requests.
func TestAClientGetsItsRate(t *testing.T) {
	const rate, link = 10e6, 200e6
	for _, size := range []int{1 << 10, 16 << 10, 256 << 10, 1 << 20} {
		c := &clock{}
		client := keeperOf(c, limited(Entity{User: Any()}, Produced, rate)).Tenant(nil, "u", "c")
		second := map[int]float64{}
		rnd := rand.New(rand.NewPCG(1, uint64(size)))
		for c.now < 30*time.Second {
			n := 1 + rnd.IntN(2*size)
			c.now += time.Duration(float64(n) / link * float64(time.Second))
			client.Charge(Produced, int64(n))
			second[int(c.now/time.Second)] += float64(n)
			c.now += client.Wait(Produced)
		}
		total := func(from, to int) (sum float64) {
			for i := from; i < to; i++ {
				sum += second[i]
			}
			return sum / rate / float64(to-from)
		}
		for _, x := range []struct {
			from, to    int
			least, most float64
		}{{0, 10, 1, 1.05}, {10, 20, 0.98, 1.02}, {20, 30, 0.98, 1.02}, {0, 1, 1, 1.5}, {5, 6, 0.7, 1.3}} {
			if got := total(x.from, x.to); got < x.least || got > x.most {
				t.Errorf("requests of %d bytes get %.3f of the rate from second %d to %d", size, got, x.from, x.to)
			}
		}
	}
}

// Two sessions of a user share its quota, and their client ids have their own if the quota says so.
func TestWhoSharesAQuota(t *testing.T) {
	c := &clock{}
	k := keeperOf(c, limited(Entity{User: Of("bob")}, Produced, 1000), limited(Entity{Client: Any()}, Produced, 1000))
	k.Tenant(nil, "bob", "x").Charge(Produced, 10_000)
	if k.Tenant(nil, "bob", "y").Wait(Produced) == 0 {
		t.Error("a user dodges its quota with another client id")
	}
	k.Tenant(nil, "eve", "x").Charge(Produced, 10_000)
	if k.Tenant(nil, "eve", "y").Wait(Produced) != 0 || k.Tenant(nil, "al", "x").Wait(Produced) == 0 {
		t.Error("a client id's quota is not shared by its users alone")
	}
}

// A change of a quota applies to the next request: a debt is as many bytes as before, and a removed
// quota is forgotten.
func TestAChangeApplies(t *testing.T) {
	c := &clock{}
	k := keeperOf(c, limited(Entity{User: Any()}, Produced, 1000))
	was := k.Tenant(nil, "u", "c")
	was.Charge(Produced, 10_250)
	if got := was.Wait(Produced); got != 10*time.Second {
		t.Error(got)
	}
	if k.Tenant(was, "u", "c") != was {
		t.Error("the buckets are looked for again without a change")
	}
	k.Set(Compile(slices.Values([]Quota{limited(Entity{User: Any()}, Produced, 10_000)})))
	if got := k.Tenant(was, "u", "c").Wait(Produced); got != time.Second {
		t.Error(got)
	}
	// Others' quotas stay. What has none is in no metric any more.
	k.Tenant(nil, "other", "c").Charge(Fetched, 1)
	k.Set(Compile(slices.Values([]Quota{limited(Entity{User: Any()}, Fetched, 1), limited(Entity{User: Of("v")}, Produced, 1),
		limited(Entity{User: Of("u")}, Fetched, 1), limited(Entity{User: Of("u"), Client: Of("other")}, Produced, 1)})))
	if k.Tenant(was, "u", "c").Limited(Produced) || len(k.Most(10)) != 0 {
		t.Errorf("a quota that was removed: %v", k.Most(10))
	}
	k.Set(nil)
	if k.Tenant(was, "u", "c") != nil || len(k.buckets) != 0 {
		t.Error("a removed quota applies")
	}
}

// A change of other quotas forgets no debt: of each kind of owner, by its own quota or a default,
// and of those that share a bucket because there are too many.
func TestAChangeKeepsOtherDebts(t *testing.T) {
	u, c := Of("bob"), Of("app")
	other := limited(Entity{User: Of("other")}, Produced, 1)
	for _, rule := range []Entity{{User: u, Client: c}, {User: u, Client: Any()}, {User: u}, {User: Any(), Client: c},
		{User: Any(), Client: Any()}, {User: Any()}, {Client: c}, {Client: Any()}} {
		for _, most := range []int{0, MaxOwners} {
			k := keeperOf(&clock{}, limited(rule, Produced, 1000))
			k.most = most
			was := k.Tenant(nil, "bob", "app")
			was.Charge(Produced, 1250)
			k.Set(Compile(slices.Values([]Quota{limited(rule, Produced, 1000), other})))
			if got := k.Tenant(was, "bob", "app").Wait(Produced); got != time.Second {
				t.Errorf("%v, at most %d: a debt of 1 s is %v", rule, most, got)
			}
		}
	}
	address := netip.MustParseAddr("10.0.0.1")
	for _, rule := range []Entity{{Address: Of("10.0.0.1")}, {Address: Any()}} {
		k := keeperOf(&clock{}, limited(rule, Connections, 1))
		for k.Connect(address) == 0 {
		}
		k.Set(Compile(slices.Values([]Quota{limited(rule, Connections, 1), other})))
		if k.Connect(address) == 0 {
			t.Errorf("%v: the connections of an address are forgotten", rule)
		}
	}
}

// No wait is longer than MaxWait, and no debt than an hour.
func TestWaitsAreBounded(t *testing.T) {
	c := &clock{}
	client := keeperOf(c, limited(Entity{User: Any()}, Fetched, 1e-7)).Tenant(nil, "u", "c")
	client.Charge(Fetched, math.MaxInt64)
	if got := client.Wait(Fetched); got != MaxWait {
		t.Error(got)
	}
	if c.now = maxDebt; client.Wait(Fetched) != 0 {
		t.Error("a debt stays for more than an hour")
	}
}

// A client in debt may not create partitions; before, it may create many at once.
func TestPartitionsComeInBursts(t *testing.T) {
	c := &clock{}
	client := keeperOf(c, limited(Entity{User: Any()}, Mutations, 10)).Tenant(nil, "u", "c")
	if !client.Take(Mutations, 100) || client.Wait(Mutations) != 0 {
		t.Error("100 partitions at 10 a second are refused, or delay the next ones")
	}
	if !client.Take(Mutations, 60) || client.Take(Mutations, 1) {
		t.Error("a client in debt creates partitions, or one that is not is refused")
	}
	if got := client.Wait(Mutations); got != 5*time.Second {
		t.Error(got)
	}
}

// The time of requests is charged in percent of a processor.
func TestTimeOfRequests(t *testing.T) {
	c := &clock{}
	client := keeperOf(c, limited(Entity{User: Any()}, RequestTime, 50)).Tenant(nil, "u", "c")
	client.ChargeTime(time.Second)
	if got := client.Wait(Produced); got != 1750*time.Millisecond {
		t.Error(got)
	}
}

// An address that connects too often waits, and what waited is not charged.
func TestConnectionsOfAnAddress(t *testing.T) {
	c := &clock{}
	k := keeperOf(c, limited(Entity{Address: Any()}, Connections, 1), limited(Entity{Address: Of("10.0.0.9")}, Connections, 100))
	ip := netip.MustParseAddr("10.0.0.1")
	n := 0
	for k.Connect(ip) == 0 {
		n++
	}
	if n != 12 {
		t.Errorf("%d connections at once at one a second", n)
	}
	if got := k.Connect(netip.MustParseAddr("::ffff:10.0.0.1")); got != time.Second {
		t.Errorf("the address in another form waits for %v", got)
	}
	if k.Connect(netip.MustParseAddr("10.0.0.9")) != 0 {
		t.Error("another address waits")
	}
	if c.now += time.Second; k.Connect(ip) != 0 {
		t.Error("refused connections were charged")
	}
}

// The default quota counts a /64 of IPv6 as one address, since a host may use any address of it. An
// address with a quota of its own is one address.
func TestConnectionsOfANetwork(t *testing.T) {
	c := &clock{}
	k := keeperOf(c, limited(Entity{Address: Any()}, Connections, 1), limited(Entity{Address: Of("2001:db8::9")}, Connections, 1))
	at := func(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", 0x100+i)) }
	n := 0
	for k.Connect(at(n)) == 0 {
		n++
	}
	if n != 12 {
		t.Errorf("%d connections at once of the addresses of a /64 at one a second", n)
	}
	for _, other := range []string{"2001:db8::9", "2001:db8:0:1::1"} {
		if k.Connect(netip.MustParseAddr(other)) != 0 {
			t.Errorf("%s waits", other)
		}
	}
	if most := k.Most(10); len(most) != 1 || most[0].Owner.String() != "ip=2001:db8::/64" {
		t.Errorf("who waited: %v", most)
	}
}

// The number of buckets is bounded: further clients share one for each quota, and buckets that were
// not used for an hour are forgotten.
func TestBucketsAreBounded(t *testing.T) {
	c := &clock{}
	k := keeperOf(c, limited(Entity{Client: Any()}, Produced, 1000))
	k.most = 3
	for i := range 10 {
		k.Tenant(nil, "u", fmt.Sprint(i)).Charge(Produced, 300)
	}
	if len(k.buckets) != 4 {
		t.Errorf("%d buckets", len(k.buckets))
	}
	old := k.Tenant(nil, "u", "0")
	if old.Wait(Produced) >= k.Tenant(nil, "u", "9").Wait(Produced) {
		t.Error("clients beyond the bound share no bucket")
	}
	c.now += forgetAfter + 2*time.Second
	k.Tenant(nil, "u", "new")
	if len(k.buckets) != 1 || k.Tenant(old, "u", "0") == old {
		t.Errorf("%d buckets after an hour", len(k.buckets))
	}
}

// A client that uses ever more client ids takes no bucket from others: theirs would be one that all
// share, with the debt of all.
func TestManyClientIDsTakeNoBucket(t *testing.T) {
	c := &clock{}
	k := keeperOf(c, limited(Entity{User: Any(), Client: Any()}, Produced, 1000))
	k.most = 100
	victim := k.Tenant(nil, "victim", "app")
	victim.Charge(Produced, 3250)
	for i := range 1000 {
		c.now += time.Millisecond
		k.Tenant(nil, "mallory", fmt.Sprint(i)).Charge(Produced, 1)
	}
	c.now += time.Second
	late := k.Tenant(nil, "late", "app")
	if late.buckets[Produced].owner.User != Of("late") {
		t.Errorf("the bucket of another user is that of %v", late.buckets[Produced].owner)
	}
	if got := k.Tenant(victim, "victim", "app").Wait(Produced); got != time.Second {
		t.Errorf("a debt of 3 s is %v after 2 s", got)
	}
	if len(k.buckets) > k.most+1 {
		t.Errorf("%d buckets", len(k.buckets))
	}
}

// A client id may have 32 KiB, and each request another one: with their whole text, as many as are
// remembered would take 3 GB. What is behind 256 bytes makes no bucket.
func TestLongClientIDsTakeLittleMemory(t *testing.T) {
	k := keeperOf(&clock{}, limited(Entity{Client: Any()}, Produced, 1000), limited(Entity{User: Any(), Client: Any()}, Fetched, 1000))
	long := strings.Repeat("é", 1<<14)
	for i := range 10 {
		k.Tenant(nil, "u", long+fmt.Sprint(i))
		k.Tenant(nil, "u", fmt.Sprint(i)+long)
	}
	for key := range k.buckets {
		if n := len(key.owner.Client.Text); n > 256 {
			t.Fatalf("a bucket has a name of %d bytes", n)
		}
	}
	if len(k.buckets) != 2*11 {
		t.Errorf("%d buckets", len(k.buckets))
	}
}

// Most names the owners that waited longest.
func TestMostNamesWhoWaited(t *testing.T) {
	c := &clock{}
	k := keeperOf(c, limited(Entity{User: Any()}, Produced, 1000))
	for i := range 5 {
		client := k.Tenant(nil, fmt.Sprint("u", i), "c")
		client.Charge(Produced, int64(250+1000*i))
		client.Wait(Produced)
	}
	got := fmt.Sprint(k.Most(2))
	if got != "[{user=u4 producer_byte_rate 4s 4s} {user=u3 producer_byte_rate 3s 3s}]" || len(k.Most(100)) != 4 {
		t.Error(got)
	}
}

// Most is asked for each scrape: of many owners it writes the names of those only that it returns.
func TestMostOfManyOwners(t *testing.T) {
	c := &clock{}
	k := keeperOf(c, limited(Entity{User: Any()}, Produced, 1000))
	for i := range 2000 {
		client := k.Tenant(nil, fmt.Sprint("u", i), "c")
		client.Charge(Produced, int64(1000+i))
		client.Wait(Produced)
	}
	if n := testing.AllocsPerRun(2, func() { k.Most(10) }); n > 200 {
		t.Errorf("%v allocations for 10 of 2,000 owners", n)
	}
}

// Whatever is charged, and however the time passes, a bucket lets pass no more than its rate and
// its depth, and it is in debt for exactly what is more.
func TestABucketKeepsItsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const rate = 1000.0
		b, now := newBucket(Entity{}, Produced, rate, 0), time.Duration(0)
		balance := rate * depth.Seconds()
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			pass := time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond
			now += pass
			balance = min(balance+rate*pass.Seconds(), rate*depth.Seconds())
			n := float64(rapid.IntRange(0, 3000).Draw(t, "n"))
			b.charge(n, now)
			balance -= n
			if got, want := b.debt(now).Seconds(), max(0, -balance/rate); math.Abs(got-want) > 1e-6 {
				t.Fatalf("debt of %v s, want %v s", got, want)
			}
		}
	})
}

// The values that Kafka 4.3.1 refuses for each limit.
func TestCheck(t *testing.T) {
	for _, l := range []Limit{Produced, Fetched, RequestTime, Mutations, Connections} {
		got := ""
		for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), 1.5, 1 + 1e-7, 1e-7, 3e9, 9.3e18, 1} {
			if l.Check(v) == "" {
				got += fmt.Sprint(v, " ")
			}
		}
		want := map[Limit]string{Produced: "1.0000001 1e-07 3e+09 1 ", Fetched: "1.0000001 1e-07 3e+09 1 ",
			Connections: "1.0000001 1e-07 1 "}[l]
		if want == "" {
			want = "1.5 1.0000001 1e-07 3e+09 9.3e+18 1 "
		}
		if got != want {
			t.Errorf("%s allows %s, want %s", l, got, want)
		}
		if back, ok := ParseLimit(l.String()); !ok || back != l {
			t.Errorf("%s is parsed as %v", l, back)
		}
	}
}

// Events of a Rate wait so that there are no more than the rate allows, after those of one second.
func TestARateSpacesEvents(t *testing.T) {
	c := &clock{}
	r := NewRate(10, c.time)
	for i := range 30 {
		want := max(0, time.Duration(i-9)*time.Second/10)
		if got := r.Take(); got != want {
			t.Errorf("event %d waits %v, want %v", i, got, want)
		}
	}
	c.now = time.Hour
	if got := r.Take(); got != 0 {
		t.Errorf("after a pause: %v", got)
	}
	if got := (*Rate)(nil).Take(); got != 0 {
		t.Errorf("without a limit: %v", got)
	}
}

// Requests get their turns in the order in which they come, each when what was charged before is
// paid. They do not wait for the charge of one that has left.
func TestTurnsComeOneAfterAnother(t *testing.T) {
	c := &clock{now: time.Hour}
	client := keeperOf(c, limited(Entity{User: Any()}, Produced, 1000)).Tenant(nil, "u", "c")
	var turns [4]Turn
	for i := range turns {
		turns[i] = client.Turn(Produced, 1000)
	}
	check := func(what string, want ...time.Duration) {
		t.Helper()
		for i, w := range want {
			if got := turns[i].Wait(); got != w*time.Millisecond {
				t.Errorf("%s: turn %d waits %v, want %v", what, i, got, w*time.Millisecond)
			}
		}
	}
	check("at once", 0, 750, 1750, 2750)
	if got := client.Wait(Produced); got != 3750*time.Millisecond {
		t.Errorf("an answer asks to wait %v, which is not for all turns", got)
	}
	c.now += 750 * time.Millisecond
	check("later", 0, 0, 1000, 2000)
	turns[2].Leave()
	if got := turns[3].Wait(); got != time.Second {
		t.Errorf("when one has left, that behind it waits %v", got)
	}
	c.now += time.Second
	if turns[3].Wait() != 0 || client.Wait(Produced) != time.Second {
		t.Error("what was given back is waited for")
	}
	if most := client.keeper.Most(1); len(most) != 1 || most[0].Waited != (3750+3*750+1000+1000)*time.Millisecond {
		t.Errorf("what was waited: %v", most)
	}
}

// A change of quotas applies to requests that wait for their turn, with what they were charged.
func TestAChangeAppliesToTurns(t *testing.T) {
	c := &clock{now: time.Hour}
	k := keeperOf(c, limited(Entity{User: Any()}, Produced, 1000))
	client := k.Tenant(nil, "u", "c")
	client.Charge(Produced, 10_250)
	turn, none := client.Turn(Produced, 1000), (*Tenant)(nil).Turn(Produced, 1000)
	check := func(what string, want time.Duration, quotas ...Quota) {
		t.Helper()
		k.Set(Compile(slices.Values(quotas)))
		if got := turn.Wait(); got != want {
			t.Errorf("%s: it waits %v, want %v", what, got, want)
		}
	}
	other := limited(Entity{User: Of("other")}, Produced, 1)
	check("another quota", 10*time.Second, limited(Entity{User: Any()}, Produced, 1000), other)
	k.Tenant(nil, "u", "c") // a request of the client, which gets the new rate
	k.Set(Compile(slices.Values([]Quota{limited(Entity{User: Any()}, Produced, 10_000)})))
	check("ten times the rate", time.Second, limited(Entity{User: Any()}, Produced, 10_000))
	check("a quota of its own", 0, limited(Entity{User: Of("u"), Client: Of("c")}, Produced, 1000))
	if got := k.Tenant(nil, "u", "c").Wait(Produced); got != 750*time.Millisecond {
		t.Errorf("it is charged with %v to the new one", got)
	}
	check("none", 0)
	if none.Wait() != 0 {
		t.Error("a client without a quota waits")
	}
}

// Those who wait for the time of requests pass together.
func TestTurnsOfTheTimeOfRequests(t *testing.T) {
	c := &clock{now: time.Hour}
	client := keeperOf(c, limited(Entity{User: Any()}, RequestTime, 50)).Tenant(nil, "u", "c")
	client.ChargeTime(time.Second)
	for l, n := range map[Limit]int64{Produced: 1000, RequestTime: 0, Fetched: 0} {
		if turn := client.Turn(l, n); turn.Wait() != 1750*time.Millisecond {
			t.Errorf("%v: %v", l, turn.Wait())
		}
	}
}

// What others take at the same moment is not lent twice.
func TestTakeIsOneStep(t *testing.T) {
	client := keeperOf(&clock{now: time.Hour}, limited(Entity{User: Any()}, Fetched, 1000)).Tenant(nil, "u", "c")
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if client.Take(Fetched, 1000) {
				taken.Add(1)
			}
		})
	}
	if all.Wait(); taken.Load() != 1 {
		t.Errorf("%d took the whole", taken.Load())
	}
	if !client.Take(Fetched, 0) {
		t.Error("nothing may not be taken in debt")
	}
}

// What clients had to wait for ends with the quota: it was removed or changed, or another one
// applies to the client. The wait of a client whose quota stays is not forgotten.
func TestWaitsEndWithTheirQuota(t *testing.T) {
	of := func(e Entity, l Limit, v float64) Quota {
		q := Quota{Entity: e}
		q.Limits[l] = v
		return q
	}
	all, address := Entity{User: Any()}, Entity{Address: Any()}
	former := []Quota{of(all, Produced, 100), of(address, Connections, 1)}
	for name, c := range map[string]struct {
		now               []Quota
		waits, connecting bool // are still reported
	}{
		"nothing":            {former, true, true},
		"another one":        {append([]Quota{of(Entity{Client: Of("x")}, Fetched, 1)}, former...), true, true},
		"all removed":        {nil, false, false},
		"removed":            {former[1:], false, true},
		"of addresses":       {former[:1], true, false},
		"raised":             {[]Quota{of(all, Produced, 101), former[1]}, false, true},
		"of addresses, more": {[]Quota{former[0], of(address, Connections, 2)}, true, false},
		"one of its own":     {append([]Quota{of(Entity{User: Of("bob")}, Produced, 200)}, former...), false, true},
	} {
		for _, ip := range []string{"10.0.0.1", "2001:db8::1"} {
			now := time.Second
			k := NewKeeper(func() time.Duration { return now })
			k.Refusals = refusals.New(time.Now)
			k.Refusals.Refused(view.RefusedConnection, "max.connections", "", refusals.Who{Address: ip}, 0, nil)
			k.Set(Compile(slices.Values(former)))
			bob := k.Tenant(nil, "bob", "app")
			bob.Charge(Produced, 100_000)
			bob.Wait(Produced)
			for range 20 {
				k.Connect(netip.MustParseAddr(ip))
			}
			k.Set(Compile(slices.Values(c.now)))
			if !c.waits {
				bob.Wait(Produced) // the answer to a request that came before
			}
			got := map[string]bool{}
			for _, x := range k.Refusals.Last() {
				got[x.Cause] = true
			}
			if got[Produced.String()] != c.waits || got[Connections.String()] != c.connecting || !got["max.connections"] {
				t.Errorf("%s, %s: %v", name, ip, got)
			}
		}
	}
}

// An IPv6 client counts by its network, and its address may have a quota.
func TestTheWaitForAnAddressIsKnownByItsQuota(t *testing.T) {
	ip := netip.MustParseAddr("2001:db8::1")
	own := Quota{Entity: Entity{Address: Of(AddressText(ip))}}
	own.Limits[Connections] = 1
	k := NewKeeper(func() time.Duration { return time.Second })
	k.Refusals = refusals.New(time.Now)
	for _, rate := range []float64{1, 2} {
		own.Limits[Connections] = rate
		k.Set(Compile(slices.Values([]Quota{own})))
		if rate == 1 {
			for range 20 {
				k.Connect(ip)
			}
			k.Set(Compile(slices.Values([]Quota{own})))
		}
		if got := len(k.Refusals.Last()); got > 0 != (rate == 1) {
			t.Errorf("rate %v: %d", rate, got)
		}
	}
}

// All that makes a client wait is counted by whose quota it is and who waits, with the wait that is
// still to come, which is longer than what one answer asks for.
func TestWaitsAreCounted(t *testing.T) {
	now := time.Second
	k := NewKeeper(func() time.Duration { return now })
	k.Refusals = refusals.New(time.Now)
	k.Set(Compile(slices.Values([]Quota{{Entity: Entity{User: Any()}, Limits: [numLimits]float64{Produced: 100, Mutations: 1}},
		{Entity: Entity{Address: Any()}, Limits: [numLimits]float64{Connections: 1}}})))
	bob := k.Tenant(nil, "bob", "app")
	bob.Charge(Produced, 100_000)
	bob.Wait(Produced)
	turn := bob.Turn(Produced, 1)
	turn.Wait()
	turn.Wait()
	bob.Charge(Mutations, 100)
	bob.Take(Mutations, 1)
	for range 20 {
		k.Connect(netip.MustParseAddr("10.0.0.1"))
	}
	got := map[string]view.Refused{}
	for _, x := range k.Refusals.Last() {
		got[x.Cause] = x
	}
	produced, mutations, connections := got[Produced.String()], got[Mutations.String()], got[Connections.String()]
	if produced.Kind != view.RefusedQuota || produced.Rule != "user=<default>" || produced.Detail != "100" || produced.Count != 2 ||
		produced.Longest < 900*time.Second || produced.Who != (view.Client{User: "bob", ClientID: "app"}) {
		t.Errorf("produced: %+v", produced)
	}
	if mutations.Count != 1 || mutations.Longest < time.Minute {
		t.Errorf("mutations: %+v", mutations)
	}
	if connections.Kind != view.RefusedConnection || connections.Rule != "ip=<default>" || connections.Count == 0 ||
		connections.Who != (view.Client{Address: "10.0.0.1"}) {
		t.Errorf("connections: %+v", connections)
	}
}

// What is removed because its request never came is no more than what was charged for it, also if a
// debt has reached its bound.
func TestRequestsThatNeverComePayForNoOthers(t *testing.T) {
	now := time.Hour
	k := NewKeeper(func() time.Duration { return now })
	q := Quota{Entity: Entity{User: Any()}}
	q.Limits[Produced] = 100_000 // bytes per second
	k.Set(Compile(slices.Values([]Quota{q})))
	c := k.Tenant(nil, "u", "c")
	var sent, announced []Turn
	for range 100 {
		sent = append(sent, c.Turn(Produced, 1_000_000))
	}
	for range 10 {
		announced = append(announced, c.Turn(Produced, 60_000_000))
	}
	now += 25 * time.Second
	for i := range announced {
		announced[i].Leave()
	}
	served := 0
	for i := range sent {
		if sent[i].Wait() == 0 {
			served++
		}
	}
	if served > 4 {
		t.Errorf("%d of the requests of 1 MB are served within 25 s by a quota of 0.1 MB/s", served)
	}
}
