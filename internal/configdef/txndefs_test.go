package configdef

import (
	"strings"
	"testing"
)

// A partition must not forget a producer whose transaction may be open or whose last batch may
// still be on the way.
func TestProducersAreRememberedForLongerThanTransactions(t *testing.T) {
	r := registry()
	for _, c := range []struct{ expiration, timeout, want string }{
		{"86400000", "900000", ""},
		{"1020001", "900000", ""},
		{"1020000", "900000", "above transaction.max.timeout.ms"},
		{"86400000", "86400000", "above transaction.max.timeout.ms"},
	} {
		err := r.CheckStatic(map[string]string{producerExpiration: c.expiration, maxTransactionTimeout: c.timeout})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s and %s: %v, want %q", c.expiration, c.timeout, err, c.want)
		}
	}
}

func TestVerificationCanNotBeDisabled(t *testing.T) {
	r := registry()
	const name = "transaction.partition.verification.enable"
	for value, ok := range map[string]bool{"true": true, "false": false} {
		set := map[string]string{name: value}
		if err := r.CheckStatic(set); (err == nil) != ok {
			t.Errorf("%s in the file: %v", value, err)
		}
		if err := r.CheckDynamic(set, true); (err == nil) != ok {
			t.Errorf("%s at run time: %v", value, err)
		}
	}
}
