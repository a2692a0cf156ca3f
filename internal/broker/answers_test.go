package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
)

// No list is larger than what is reserved for it, and the APIs that say that their answers are in
// proportion to the request neither list nor describe.
func TestListsHaveTheirMemoryFirst(t *testing.T) {
	n := newNode(t, quick)
	var names []any
	for i := range 300 {
		name := fmt.Sprintf("%04d", i) + strings.Repeat("t", controller.MaxNameLength-4)
		n.topic(t, name, 3)
		names = append(names, name)
	}
	b := n.Handler
	most := b.largestAnswer()
	if most <= smallAnswer {
		t.Fatalf("%d bytes", most)
	}
	w := n.dial(t)
	for what, req := range map[string]*kmsg.MetadataRequest{
		"all": kmsg.NewPtrMetadataRequest(), "named": metadataRequest(false, names...),
	} {
		if size := len(ask[*kmsg.MetadataResponse](t, w, 12, req).AppendTo(nil)); int64(size) > most || int64(size) < most/4 {
			t.Errorf("%s: an answer of %d bytes, %d are reserved", what, size, most)
		}
	}
	for _, a := range apis() {
		name := a.Name()
		lists := strings.HasPrefix(name, "List") && name != "ListOffsets" || strings.Contains(name, "Describe") ||
			slices.Contains([]string{"Metadata", "OffsetFetch", "ElectLeaders"}, name) ||
			name == "DeleteACLs" || name == "GetTelemetrySubscriptions" || name == "ReadShareGroupState"
		if lists == a.inProportion {
			t.Errorf("%s: inProportion is %v, and by its name its answer is a list: %v; change one of the two", name, a.inProportion, lists)
		}
	}
}
