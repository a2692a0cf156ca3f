package configdef

import (
	"errors"
	"strings"
	"testing"
)

func TestPresetsAreTheDocumentedOnes(t *testing.T) {
	want := []ProducePreset{
		{Name: "low-latency", ProduceBytes: 16 << 20, ConnectionBytes: 4 << 20, DeferredBytes: 64 << 20, ConnectionRequests: 32},
		{Name: "balanced", ProduceBytes: 32 << 20, ConnectionBytes: 8 << 20, DeferredBytes: 128 << 20, ConnectionRequests: 64},
		{Name: "high-throughput", ProduceBytes: 128 << 20, ConnectionBytes: 32 << 20, DeferredBytes: 512 << 20, ConnectionRequests: 128},
		{Name: "extreme", ProduceBytes: 512 << 20, ConnectionBytes: 128 << 20, DeferredBytes: 1 << 30, ConnectionRequests: 256},
	}
	for i, got := range Presets() {
		if got.Doc == "" {
			t.Errorf("%s does not say what it is for", got.Name)
		}
		byName, err := LookupPreset(got.Name)
		if byName != got || err != nil {
			t.Errorf("LookupPreset(%q) = %+v, %v", got.Name, byName, err)
		}
		if got.Doc = ""; got != want[i] {
			t.Errorf("%+v, want %+v", got, want[i])
		}
	}
	if p, err := LookupPreset(DefaultPreset); err != nil || p.Name != "balanced" {
		t.Errorf("default: %v, %v", p, err)
	}
	_, err := LookupPreset("fast")
	if !errors.Is(err, ErrUnknownPreset) || !strings.Contains(err.Error(), "low-latency, balanced, high-throughput, extreme") {
		t.Error(err)
	}
}
