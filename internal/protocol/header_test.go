package protocol

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func TestHeaderOfEveryVersionAsKmsgFramesIt(t *testing.T) {
	table := fullTable(t)
	formatters := map[string]*kmsg.RequestFormatter{
		"":       kmsg.NewRequestFormatter(),
		"sarama": kmsg.NewRequestFormatter(kmsg.FormatterClientID("sarama")),
	}
	eachVersion(t, table, func(a API, version int16) {
		req := kmsg.RequestForKey(a.Key)
		req.SetVersion(version)
		for client, f := range formatters {
			frame := f.AppendRequest(nil, req, 77)[4:]
			h, body, err := ParseHeader(frame, table.Flexible(a.Key, version))
			must.OK(t, err)
			if h.Key != a.Key || h.Version != version || h.CorrelationID != 77 || string(h.ClientID) != client {
				t.Fatalf("%s version %d: %+v", a.Name(), version, h)
			}
			if (h.ClientID == nil) != (client == "") {
				t.Fatal("null and empty client ids are mixed up")
			}
			if !bytes.Equal(body, req.AppendTo(nil)) {
				t.Fatalf("%s version %d: body %x", a.Name(), version, body)
			}
		}
	})
}

// TestFault11HeaderCutAtEveryByte covers entry 11 of the list of faults.
func TestFault11HeaderCutAtEveryByte(t *testing.T) {
	header := []byte{0, 3, 0, 12, 0, 0, 0, 1, 0, 3, 'a', 'b', 'c', 2, 0, 1, 'x', 5, 2, 'y', 'z'}
	if h, body, err := ParseHeader(header, true); err != nil || string(h.ClientID) != "abc" || len(body) != 0 {
		t.Fatalf("%+v %x %v", h, body, err)
	}
	for cut := range header {
		if _, _, err := ParseHeader(header[:cut], true); !errors.Is(err, ErrMalformed) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
}

func TestResponsePrefix(t *testing.T) {
	if got := AppendResponsePrefix(nil, 5, false, 3); !bytes.Equal(got, []byte{0, 0, 0, 7, 0, 0, 0, 5}) {
		t.Errorf("version 0: %x", got)
	}
	got := AppendResponsePrefix(nil, 5, true, 3)
	if !bytes.Equal(got, []byte{0, 0, 0, 8, 0, 0, 0, 5, 0}) || len(got) > MaxResponsePrefix {
		t.Errorf("version 1: %x", got)
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte{0, 3, 0, 12, 0, 0, 0, 1, 0, 3, 'a', 'b', 'c', 1, 0, 1, 'x'}, true)
	f.Add([]byte{0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff}, false)
	f.Add([]byte{0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f}, true)
	f.Fuzz(func(t *testing.T, frame []byte, flexible bool) {
		h, body, err := ParseHeader(frame, flexible)
		if err == nil && HeaderPrefix+2+len(h.ClientID)+len(body) > len(frame) {
			t.Fatalf("%d bytes out of %d", len(h.ClientID)+len(body), len(frame))
		}
	})
}

func TestTableRefusesWhatHasNoMeaning(t *testing.T) {
	for name, apis := range map[string][]API{
		"unknown key":       {{Key: 999}},
		"negative key":      {{Key: -1}},
		"version too high":  {{Key: KeyProduce, Max: 99}},
		"reversed versions": {{Key: KeyProduce, Min: 9, Max: 8}},
		"twice":             {{Key: KeyProduce, Max: 9}, {Key: KeyProduce, Max: 9}},
		"without a layout":  {{Key: int16(kmsg.AlterPartition)}},
	} {
		if _, err := NewTable(kmsg.RequestForKey, apis...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestTableListsAndAcceptsTheSame(t *testing.T) {
	table, err := NewTable(kmsg.RequestForKey, API{Key: KeyApiVersions, Max: 4}, API{Key: KeyProduce, Min: 3, Max: 13, ListZero: true})
	must.OK(t, err)
	if a := table.APIs()[0]; a.Key != KeyProduce || a.ListedMin() != 0 || table.Supports(KeyProduce, 2) || !table.Supports(KeyProduce, 3) {
		t.Errorf("Produce is listed from 0 on and accepted from 3 on: %+v", a)
	}
	if table.Supports(KeyApiVersions, 5) || table.Supports(1, 4) || table.Supports(-1, 0) || table.Supports(3000, 0) {
		t.Error("accepts what is not listed")
	}
	if table.Flexible(KeyProduce, 8) || !table.Flexible(KeyProduce, 9) {
		t.Error("wrong encoding")
	}
	if _, err := table.Decode(KeyProduce, 2, nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("decoded: %v", err)
	}
}
