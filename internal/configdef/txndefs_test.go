package configdef

import "testing"

// Transactions may be open for longer than partitions remember producers, as in Kafka: an open one
// keeps its producer.
func TestTransactionsMayOutlastTheExpirationOfProducers(t *testing.T) {
	set := map[string]string{"producer.id.expiration.ms": "10000", "transaction.max.timeout.ms": "2147483647"}
	if err := registry().CheckStatic(set); err != nil {
		t.Error(err)
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
