package assign

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// show writes tasks as "0_1 0_2 | 1_0": active ones, and standby ones after the bar.
func show(t Tasks) string {
	var b strings.Builder
	for _, a := range t.Active {
		fmt.Fprintf(&b, "%s_%d ", a.Subtopology, a.Partition)
	}
	if len(t.Standby) > 0 {
		b.WriteString("| ")
	}
	for _, a := range t.Standby {
		fmt.Fprintf(&b, "%s_%d ", a.Subtopology, a.Partition)
	}
	return strings.TrimSpace(b.String())
}

// rounds assigns repeatedly: each round has the members "id/process", and the others leave.
func rounds(subs []Subtopology, standbys int, all ...string) []string {
	var shown []string
	var last map[string]Tasks
	for _, words := range all {
		in := TaskInput{Subtopologies: subs, Standbys: standbys}
		for _, w := range strings.Fields(words) {
			id, process, _ := strings.Cut(w, "/")
			in.Members = append(in.Members, TaskMember{ID: id, Process: process, Previous: last[id]})
		}
		last = Sticky(in)
		var line []string
		for _, id := range slices.Sorted(maps.Keys(last)) {
			line = append(line, id+": "+show(last[id]))
		}
		shown = append(shown, strings.Join(line, "; "))
	}
	return shown
}

func TestStickyTasks(t *testing.T) {
	for _, c := range []struct {
		name     string
		subs     []Subtopology
		standbys int
		members  []string
		want     []string
	}{
		{"a second member gets half of each subtopology, and it returns when the member leaves",
			[]Subtopology{{"0", 3, false}, {"1", 3, true}}, 0, []string{"a/1", "a/1 b/2", "a/1"},
			[]string{"a: 0_0 0_1 0_2 1_0 1_1 1_2", "a: 0_0 0_1 1_0; b: 0_2 1_1 1_2", "a: 0_0 0_1 0_2 1_0 1_1 1_2"}},
		{"members of all processes get tasks before a process gets a second one",
			[]Subtopology{{"0", 2, false}}, 0, []string{"a/1 b/1 c/2"}, []string{"a: 0_0; b: ; c: 0_1"}},
		{"a standby is never in the process of the active task", []Subtopology{{"0", 2, true}}, 1, []string{"a/1 b/1", "a/1 b/1 c/2"},
			[]string{"a: 0_0; b: 0_1", "a: 0_0; b: 0_1; c: | 0_0 0_1"}},
		{"a process with a standby takes over", []Subtopology{{"0", 2, true}}, 1, []string{"a/1 b/2 c/3", "b/2 c/3"},
			[]string{"a: 0_0 | 0_1; b: 0_1; c: | 0_0", "b: 0_1 | 0_0; c: 0_0 | 0_1"}},
		{"without state there is no standby", []Subtopology{{"0", 2, false}}, 1, []string{"a/1 b/2"}, []string{"a: 0_0; b: 0_1"}},
		{"no members", []Subtopology{{"0", 2, false}}, 1, []string{""}, []string{""}},
		{"no tasks", nil, 1, []string{"a/1"}, []string{"a: "}},
	} {
		if got := rounds(c.subs, c.standbys, c.members...); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// Whatever was assigned before: every task is active once, members are balanced, copies of a task
// are in different processes, and there are as many as possible. Assigning again moves no active
// task.
func TestStickyTasksProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := TaskInput{Standbys: rapid.IntRange(0, 3).Draw(t, "standbys")}
		for i := range rapid.IntRange(0, 4).Draw(t, "subtopologies") {
			in.Subtopologies = append(in.Subtopologies, Subtopology{ID: fmt.Sprint(i), Tasks: rapid.Int32Range(0, 9).Draw(t, "tasks"),
				Stateful: rapid.Bool().Draw(t, "stateful")})
		}
		task := rapid.Custom(func(t *rapid.T) Task {
			return Task{fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "s")), rapid.Int32Range(0, 10).Draw(t, "p")}
		})
		for i := range rapid.IntRange(1, 6).Draw(t, "members") {
			in.Members = append(in.Members, TaskMember{ID: fmt.Sprint("m", i), Process: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "process")),
				Previous: Tasks{Active: rapid.SliceOfN(task, 0, 8).Draw(t, "active"),
					Standby: rapid.SliceOfN(task, 0, 8).Draw(t, "standby")}})
		}
		got := Sticky(in)
		checkTasks(t, in, got)
		for i := range in.Members {
			in.Members[i].Previous = got[in.Members[i].ID]
		}
		again := Sticky(in)
		for id, tasks := range got {
			if !slices.Equal(again[id].Active, tasks.Active) {
				t.Fatalf("%s: %s, and again %s", id, show(tasks), show(again[id]))
			}
		}
	})
}

func checkTasks(t *rapid.T, in TaskInput, got map[string]Tasks) {
	places, active, all := map[Task]map[string]bool{}, map[Task]int{}, 0
	fewest, most := 1<<30, 0
	processes := map[string]bool{}
	for _, m := range in.Members {
		processes[m.Process] = true
		tasks := got[m.ID]
		fewest, most = min(fewest, len(tasks.Active)), max(most, len(tasks.Active))
		for _, task := range tasks.Active {
			active[task]++
		}
		for _, task := range slices.Concat(tasks.Active, tasks.Standby) {
			if places[task] == nil {
				places[task] = map[string]bool{}
			}
			if places[task][m.Process] {
				t.Fatalf("process %s has %v twice", m.Process, task)
			}
			places[task][m.Process] = true
		}
	}
	for _, s := range in.Subtopologies {
		for p := range s.Tasks {
			all++
			task, want := Task{s.ID, p}, 1
			if s.Stateful {
				want = min(1+in.Standbys, len(processes))
			}
			if active[task] != 1 || len(places[task]) != want {
				t.Fatalf("%v is active %d times and in %d processes, want 1 and %d", task, active[task], len(places[task]), want)
			}
		}
	}
	if len(active) != all || most-fewest > 1 {
		t.Fatalf("%d of %d tasks are assigned; from %d to %d active ones", len(active), all, fewest, most)
	}
}
