// Command pauses runs tests whose goroutines pause at random places:
//
//	go run ./scripts/pauses -short -count=5 ./internal/coordinator ./internal/storage/...
//
// Its arguments are those of "go test". The standard library with which it builds the tests yields
// the processor or sleeps now and then: in calls that lock or unlock a mutex, in operations on
// channels, and after a go statement. A machine that is busy with other work does the same, but
// far less often, and code between two such places rarely takes long enough for another goroutine
// to get past it. So this finds in seconds what fails there once in some thousand runs: tests that
// rely on the order of two goroutines, and code that does. It knows no package and no test.
//
// Pauses take processor time, not the time of a synctest bubble. They are no fault: a test that
// fails because of them can fail without them, unless it measures time or stacks: they need some.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

// pause is the function that pauses, in package runtime. It leaves alone the goroutines of the
// scheduler and those in a state in which they must not be interrupted. Of 1,024 calls, 2 sleep for
// 50 µs to 1.5 ms, once in 16 times for ten times as long, and 38 yield up to 8 times.
const pause = `
func chronikPause() {
	gp := getg()
	mp := gp.m
	if gp != mp.curg || gp == mp.g0 || mp.locks != 0 || mp.mallocing != 0 || mp.preemptoff != "" || !mainStarted {
		return
	}
	switch r := cheaprandn(1024); {
	case r < 2:
		us := 50 + cheaprandn(1500)
		if cheaprandn(16) == 0 {
			us *= 10
		}
		usleep(us)
	case r < 40:
		for range 1 + cheaprandn(8) {
			Gosched()
		}
	}
}

// Of six goroutines that start another one, one lets it run first.
func chronikStarted() {
	gp := getg()
	mp := gp.m
	if gp == mp.curg && mp.locks == 0 && mp.mallocing == 0 && mp.preemptoff == "" && mainStarted && cheaprandn(6) == 0 {
		Gosched()
	}
}

//go:linkname chronikPauseOfMutex internal/sync.chronikPause
func chronikPauseOfMutex() { chronikPause() }

//go:linkname chronikPauseOfSync sync.chronikPause
func chronikPauseOfSync() { chronikPause() }
`

const linked = `
//go:linkname chronikPause
func chronikPause()
`

// patch inserts calls into functions of one file of the standard library.
type patch struct {
	file   string
	begin  []string // functions that pause when they begin, "Type.Method" for methods
	end    []string // functions that call one of the functions in pause when they end
	call   string   // that call
	append string   // declarations for the end of the file
}

var patches = []patch{
	{file: "internal/sync/mutex.go", begin: []string{"Mutex.Lock"}, end: []string{"Mutex.Unlock"}, call: "chronikPause()", append: linked},
	{file: "sync/rwmutex.go", end: []string{"RWMutex.RUnlock"}, call: "chronikPause()", append: linked},
	{file: "runtime/chan.go", begin: []string{"chansend1", "chanrecv1"}, append: pause},
	{file: "runtime/select.go", begin: []string{"selectgo"}},
	{file: "runtime/proc.go", end: []string{"newproc"}, call: "chronikStarted()"},
}

func main() {
	err := run(os.Args[1:])
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "pauses: %v\n", err)
		os.Exit(1)
	}
}

// run runs "go test" with the arguments.
func run(args []string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	dir, err := os.MkdirTemp("", "chronik-pauses-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := write(filepath.Join(strings.TrimSpace(string(root)), "src"), dir)
	if err != nil {
		return err
	}
	test := exec.Command("go", append([]string{"test", "-overlay=" + overlay, "-vet=off"}, args...)...)
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // the tests get it, too, and end: then the directory is removed
	return test.Run()
}

// write writes the patched files and the overlay that names them, and returns its name.
func write(src, dir string) (overlay string, err error) {
	replace := map[string]string{}
	for _, p := range patches {
		name := filepath.Join(src, filepath.FromSlash(p.file))
		b, err := p.apply(name)
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, strings.ReplaceAll(p.file, "/", "-"))
		if err := os.WriteFile(to, b, 0o600); err != nil {
			return "", err
		}
		replace[name] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, b, 0o600)
}

// apply returns the file with its calls.
func (p patch) apply(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	at := func(pos token.Pos) int { return files.Position(pos).Offset }
	insert := map[int]string{} // by offset
	for _, list := range []struct {
		funcs []string
		text  string
		where func(*ast.FuncDecl) int
	}{
		{p.begin, "\nchronikPause();", func(fn *ast.FuncDecl) int { return at(fn.Body.Lbrace) + 1 }},
		{p.end, "\n" + p.call + "\n", func(fn *ast.FuncDecl) int { return at(fn.Body.Rbrace) }},
	} {
		for _, want := range list.funcs {
			fn := find(f, want)
			if fn == nil {
				return nil, fmt.Errorf("%s has no function %s with a body: this version of Go is not known here", name, want)
			}
			insert[list.where(fn)] = list.text
			if i := bytes.Index(text[at(fn.Pos()):at(fn.Body.Lbrace)], []byte("//go:nosplit")); i >= 0 {
				insert[at(fn.Pos())+i] = "// " // its stack may grow now
			}
		}
	}
	var out []byte
	for i, b := range text {
		out = append(out, insert[i]...)
		out = append(out, b)
	}
	return append(out, p.append...), nil
}

// find returns a function of the file by its name, nil if it has none with a body.
func find(f *ast.File, name string) *ast.FuncDecl {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		is := fn.Name.Name
		if fn.Recv != nil {
			of := fn.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if of, ok := of.(*ast.Ident); ok {
				is = of.Name + "." + is
			}
		}
		if is == name {
			return fn
		}
	}
	return nil
}
