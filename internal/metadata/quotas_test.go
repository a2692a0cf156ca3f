package metadata

import (
	"fmt"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/security/quota"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// The key of each kind of entity is read back, whatever its names are.
func TestQuotaKeys(t *testing.T) {
	odd := "a/b&client=c=%+ \x00é"
	for key, e := range map[string]quota.Entity{
		"/quotas/user=bob":         {User: quota.Of("bob")},
		"/quotas/user=":            {User: quota.Any()},
		"/quotas/user=bob&client=": {User: quota.Of("bob"), Client: quota.Any()},
		"/quotas/client=app":       {Client: quota.Of("app")},
		"/quotas/ip=10.0.0.1":      {Address: quota.Of("10.0.0.1")},
		"/quotas/ip=":              {Address: quota.Any()},
		"/quotas/user=a%2Fb%26client%3Dc%3D%25%2B+%00%C3%A9&client=": {User: quota.Of(odd), Client: quota.Any()},
	} {
		if got := QuotaKey(e); got != key {
			t.Errorf("%+v has key %s, want %s", e, got, key)
		}
		if k, err := ParseKey(key); err != nil || k.Kind != KindQuota || k.Entity != e {
			t.Errorf("%s: %+v, %v", key, k, err)
		}
	}
	for _, key := range []string{"/quotas/", "/quotas/user", "/quotas/user=a&user=b", "/quotas/client=a&user=b", "/quotas/user=a&ip=b",
		"/quotas/group=g", "/quotas/user=%41", "/quotas/user=a&group=g"} {
		if k, err := ParseKey(key); err == nil {
			t.Errorf("%s is %+v", key, k)
		}
	}
}

// Values that no version writes are refused.
func TestDecodeQuotaRefuses(t *testing.T) {
	for _, value := range []string{`{"v":1,"limits":{}}`, `{"v":1}`, `{"v":1,"limits":{"nope":1}}`,
		`{"v":1,"limits":{"producer_byte_rate":0}}`,
		`{"v":2,"limits":{"producer_byte_rate":1}}`} {
		if q, err := DecodeQuota(KV{Key: "/quotas/user=", Value: []byte(value), ModRevision: 1}); err == nil {
			t.Errorf("%s is %+v", value, q)
		}
	}
}

// An Image has the quotas after each change, and only a change of quotas is one in its Delta.
func TestQuotasOfAnImage(t *testing.T) {
	bob, all := quota.Entity{User: quota.Of("bob")}, quota.Entity{User: quota.Any()}
	set := func(e quota.Entity, v float64) Event {
		return Event{Key: QuotaKey(e), Value: Quota{Limits: map[string]float64{"producer_byte_rate": v}}.Encode()}
	}
	img := Empty()
	for i, x := range []struct {
		events  []Event
		changed bool
		want    string
	}{
		{[]Event{set(bob, 1), set(all, 2)}, true, "[user=<default> 2 user=bob 1]"},
		{[]Event{set(bob, 3)}, true, "[user=<default> 2 user=bob 3]"},
		{[]Event{{Key: UserKey("x"), Deleted: true}}, false, "[user=<default> 2 user=bob 3]"},
		{[]Event{{Key: QuotaKey(bob), Deleted: true}}, true, "[user=<default> 2]"},
		{[]Event{{Key: QuotaKey(bob), Deleted: true}}, false, "[user=<default> 2]"},
	} {
		next, d, err := img.Apply(Batch{Revision: int64(i + 1), Events: x.events})
		must.OK(t, err)
		if d.Quotas != x.changed || d.Empty() == x.changed || Diff(img, next).Quotas != x.changed {
			t.Errorf("%d: the delta says %v, that of the images %v", i, d.Quotas, Diff(img, next).Quotas)
		}
		var got []string
		for q := range next.Quotas() {
			got = append(got, fmt.Sprint(q.Entity, " ", q.Limits["producer_byte_rate"]))
		}
		if slices.Sort(got); fmt.Sprint(got) != x.want || next.NumQuotas() != len(got) {
			t.Errorf("%d: %v, want %s", i, got, x.want)
		}
		img = next
	}
}
