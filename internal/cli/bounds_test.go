package cli

import (
	"math"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// usage is the help of the flag of the tests.
const usage = "how many; more"

// given parses a flag --n with these bounds, and returns what it changed and the error.
func given[T Number](b Bounds[T], value T, text string) (got T, f *pflag.Flag, err error) {
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	b.Flag(set, &got, "n", "", value, usage)
	err = set.Parse([]string{"--n=" + text})
	return got, set.Lookup("n"), err
}

// refuses checks that a flag accepts and refuses values, and that a refusal names the value, the
// flag and the bounds.
func refuses[T Number](t *testing.T, b Bounds[T], value T, accepted map[string]T, refused map[string]string) {
	t.Helper()
	for text, want := range accepted {
		if got, _, err := given(b, value, text); err != nil || got != want {
			t.Errorf("%v: %q gives %v, %v", b, text, got, err)
		}
	}
	for text, want := range refused {
		got, _, err := given(b, value, text)
		if all := `invalid argument "` + text + `" for "--n" flag: ` + want; err == nil || err.Error() != all || got != value {
			t.Errorf("%v: %q leaves %v, and the error is %v, want %s", b, text, got, err, all)
		}
	}
}

func TestAFlagRefusesWhatIsOutOfItsBounds(t *testing.T) {
	refuses(t, Between(1, 100), 20, map[string]int{"1": 1, "100": 100, "0x10": 16},
		map[string]string{"0": "must be 1 to 100", "101": "must be 1 to 100", "-1": "must be 1 to 100",
			"many": "must be an integer, 1 to 100", "99999999999999999999": "must be 1 to 100"})
	refuses(t, AtLeast(int16(1)).Or(-1, "the default"), -1, map[string]int16{"-1": -1, "1": 1, "32767": 32767},
		map[string]string{"0": "must be at least 1; -1: the default", "-2": "must be at least 1; -1: the default",
			"32768": "must be 1 to 32767; -1: the default"})
	refuses(t, AtLeast(int32(0)), 5, map[string]int32{"2147483647": math.MaxInt32},
		map[string]string{"2147483648": "must be 0 to 2147483647", "4294967297": "must be 0 to 2147483647"})
	refuses(t, AtLeast(int64(0)), 5, map[string]int64{"9223372036854775807": math.MaxInt64}, map[string]string{"-1": "must be at least 0"})
	refuses(t, Between(100*time.Millisecond, time.Minute), time.Second, map[string]time.Duration{"100ms": 100 * time.Millisecond,
		"1m": time.Minute}, map[string]string{"0": "must be 100ms to 1m", "61s": "must be 100ms to 1m", "-1d": "must be " + like,
		"1d":   "must be 100ms to 1m",
		"soon": "must be " + like})
	refuses(t, AtLeast(time.Duration(0)), 0, map[string]time.Duration{"7d": 7 * 24 * time.Hour, "0s": 0},
		map[string]string{"-1s": "must be at least 0s"})
	refuses(t, Between(0, 1e9), 0.0, map[string]float64{"0.5": 0.5, "1e9": 1e9},
		map[string]string{"NaN": "must be 0 to 1000000000", "Inf": "must be 0 to 1000000000", "1e999": "must be 0 to 1000000000",
			"-0.1": "must be 0 to 1000000000", "much": "must be a number, 0 to 1000000000"})
}

// like is what a text that is no duration gets as its error.
const like = `a duration like "500ms", "30s" or "2d", 100ms to 1m`

// Help names the bounds, and the default if that is within them: 0 often stands for a flag that was
// not given.
func TestHelpNamesTheBounds(t *testing.T) {
	for want, f := range map[string]*pflag.Flag{
		"how many, 1 to 9; 20: x; more (20)":        flagOf(Between(1, 9).Or(20, "x"), 20),
		"how many, at least 1; more ()":             flagOf(AtLeast(1), 0),
		"how many, at least 1; 0: all; more (0)":    flagOf(AtLeast(1).Or(0, "all"), 0),
		"how many, 1ms to 24h; more (1h)":           flagOf(Between(time.Millisecond, 24*time.Hour), time.Hour),
		"how many, at least 0s; more (1h30m)":       flagOf(AtLeast(time.Duration(0)), 90*time.Minute),
		"how many, 0s to 596h31m23.647s; more (0s)": flagOf(Between(0, math.MaxInt32*time.Millisecond), 0),
	} {
		if got := f.Usage + " (" + f.DefValue + ")"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func flagOf[T Number](b Bounds[T], value T) *pflag.Flag {
	_, f, _ := given(b, value, "")
	return f
}
