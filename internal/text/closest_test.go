package text

import "testing"

func TestClosest(t *testing.T) {
	known := []string{"num.partitions", "num.network.threads", "log.dirs", "ORDERS_EU"}
	for name, want := range map[string]string{"num.partition": "num.partitions", "NUM_PARTITIONS": "num.partitions",
		"log.dir": "log.dirs", "log-dirs": "log.dirs", "orders-eu": "ORDERS_EU", "zebra": "", "": "", "num.partitiosn": "num.partitions"} {
		if got, _ := Closest(name, known); got != want {
			t.Errorf("Closest(%q) = %q, want %q", name, got, want)
		}
	}
	// A short name may differ by one letter only.
	for name, want := range map[string]string{"all": "", "tail": "", "sals": "sasl", "sas": "sasl", "topci": "topic", "gruop": "group"} {
		if got, _ := Closest(name, []string{"sasl", "topic", "group"}); got != want {
			t.Errorf("Closest(%q) = %q, want %q", name, got, want)
		}
	}
}
