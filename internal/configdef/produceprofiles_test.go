package configdef

import (
	"errors"
	"strings"
	"testing"
)

func TestProduceProfilesAreTheDocumentedOnes(t *testing.T) {
	want := []ProduceProfile{
		{Name: "low-latency", ProduceBytes: 16 << 20, ConnectionBytes: 4 << 20, DeferredBytes: 64 << 20, ConnectionRequests: 32},
		{Name: "balanced", ProduceBytes: 32 << 20, ConnectionBytes: 8 << 20, DeferredBytes: 128 << 20, ConnectionRequests: 64},
		{Name: "high-throughput", ProduceBytes: 128 << 20, ConnectionBytes: 32 << 20, DeferredBytes: 512 << 20, ConnectionRequests: 128},
		{Name: "extreme", ProduceBytes: 512 << 20, ConnectionBytes: 128 << 20, DeferredBytes: 1 << 30, ConnectionRequests: 256},
	}
	for i, got := range ProduceProfiles() {
		if got.Doc == "" {
			t.Errorf("%s does not say what it is for", got.Name)
		}
		byName, err := LookupProduceProfile(got.Name)
		if byName != got || err != nil {
			t.Errorf("LookupProduceProfile(%q) = %+v, %v", got.Name, byName, err)
		}
		if got.Doc = ""; got != want[i] {
			t.Errorf("%+v, want %+v", got, want[i])
		}
	}
	if p, err := LookupProduceProfile(DefaultProduceProfile); err != nil || p.Name != "balanced" {
		t.Errorf("default: %v, %v", p, err)
	}
	_, err := LookupProduceProfile("fast")
	if !errors.Is(err, ErrUnknownProduceProfile) || !strings.Contains(err.Error(), "low-latency, balanced, high-throughput, extreme") {
		t.Error(err)
	}
}
