package secret

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.yaml.in/yaml/v3"

	"github.com/chronik-io/chronik/internal/testing/must"
)

// TestNoWayOfPrintingShowsASecret prints a secret in every way that the tree uses, alone and inside
// other values.
func TestNoWayOfPrintingShowsASecret(t *testing.T) {
	const text = "hunter2-and-more"
	s := Of(text)
	holder := struct {
		Name string
		Key  Secret
		At   *Secret
		List []Secret
	}{"bob", s, &s, []Secret{s}}
	shown := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%08b", "%10.3s"} {
		shown[verb] = fmt.Sprintf(verb, s)
		shown["struct "+verb] = fmt.Sprintf(verb, holder)
	}
	shown["error"] = fmt.Errorf("cannot use %v: %w", holder, fmt.Errorf("bad %s", s)).Error()
	encoded, err := json.Marshal(holder)
	must.OK(t, err)
	shown["json"] = string(encoded)
	if encoded, err = json.Marshal(map[string]any{"a": s}); err != nil {
		t.Fatal(err)
	}
	shown["json map"] = string(encoded)
	if encoded, err = yaml.Marshal(holder); err != nil {
		t.Fatal(err)
	}
	shown["yaml"] = string(encoded)
	var lines bytes.Buffer
	slog.New(slog.NewTextHandler(&lines, nil)).Info("line", "a", s, "b", holder)
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&lines), zap.DebugLevel))
	log.Info("line", zap.Any("a", s), zap.Any("b", holder), zap.Stringer("c", s), zap.Reflect("d", holder))
	shown["logs"] = lines.String()
	func() {
		defer func() { shown["panic"] = fmt.Sprint(recover()) }()
		panic(holder)
	}()
	for how, out := range shown {
		bytesOf := fmt.Sprintf("%d", []byte(text))
		if strings.Contains(out, text) || strings.Contains(out, "hunter2") || strings.Contains(out, bytesOf[1:12]) ||
			strings.Contains(strings.ToLower(out), fmt.Sprintf("%x", text)[:12]) || strings.Contains(out, "aHVudGVy") {
			t.Errorf("%s shows the secret: %s", how, out)
		}
		if !strings.Contains(out, hidden) {
			t.Errorf("%s does not show %s: %s", how, hidden, out)
		}
	}
	if string(s.Bytes()) != text || s.Len() != len(text) || !s.Equal(Of(text)) || s.Equal(Of("other")) {
		t.Error("the value of the secret is not what was given")
	}
}

// Package fmt calls no method of a field that is not exported, so what is in it must not tell
// anything either.
func TestPrintingAHiddenFieldShowsNoSecret(t *testing.T) {
	s := Of("hunter2-and-more")
	bytesOf := fmt.Sprintf("%d", s.Bytes())
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, out := range []string{
			fmt.Sprintf(verb, struct{ key Secret }{s}), fmt.Sprintf(verb, &struct{ keys []Secret }{[]Secret{s}}),
			fmt.Sprintf(verb, map[string]struct{ key Secret }{"a": {s}}),
		} {
			if strings.Contains(out, "hunter2") || strings.Contains(out, bytesOf[1:12]) || strings.Contains(out, "68756e746572") ||
				strings.Contains(out, "0x68, 0x75") {
				t.Errorf("%s shows the secret: %s", verb, out)
			}
		}
	}
	if (Secret{}).Len() != 0 || (Secret{}).Bytes() != nil || !(Secret{}).Equal(Of("")) {
		t.Error("the zero value is not empty")
	}
}
