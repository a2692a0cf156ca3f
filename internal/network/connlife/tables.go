package connlife

import "github.com/chronik-io/chronik/internal/states"

const ignore = states.Ignore

var lives = states.New(nil, events, []states.Row[Life, Event, uint16]{
	Open: {Name: "open", Next: map[Event]Life{
		Stop: Draining, Kill: Killed, ReaderEnds: Draining, Hijack: Hijacked,
		Push: ignore, Offer: ignore, Poll: ignore, Handled: ignore, Take: ignore, Leave: ignore,
	}},
	// A request whose last bytes were being received may still be queued.
	Draining: {Name: "draining", Next: map[Event]Life{
		Stop: ignore, Kill: Killed, ReaderEnds: ignore, Drained: Closing, Push: ignore, Take: ignore, Leave: ignore,
	}},
	Closing: {Name: "closing", Next: map[Event]Life{Stop: ignore, Kill: Killed, WriterEnds: Released}},
	Killed: {Name: "killed", Next: map[Event]Life{
		Stop: ignore, Kill: ignore, ReaderEnds: ignore, WriterEnds: Released, Orphans: Gone,
	}},
	Hijacked: {Name: "hijacked", Next: map[Event]Life{Stop: ignore, Kill: ignore, ReaderEnds: ignore, WriterEnds: Released}},
	Gone:     {Name: "gone", Next: map[Event]Life{Stop: ignore, Kill: ignore, LastAnswer: Released}},
	Released: {Name: "released", Next: map[Event]Life{Stop: ignore, Kill: ignore}},
})

var readers = states.New(nil, events, []states.Row[Reader, Event, uint16]{
	Free: {Name: "free", Next: map[Event]Reader{
		Push: Busy, TakeOver: Busy, Block: ignore, Wait: Waiting, Offer: Offered, ReaderEnds: Ended,
		Stop: ignore, Kill: ignore, Recall: ignore, Hijack: ignore, List: ignore,
	}},
	Busy: {Name: "busy", Next: map[Event]Reader{
		Push: Busy, Block: Free, Wait: Waiting, ReaderEnds: Ended, Stop: ignore, Kill: ignore, Recall: ignore, Hijack: ignore,
	}},
	Waiting: {Name: "waiting", Next: map[Event]Reader{
		Wake: Free, Stop: ignore, Kill: ignore, Recall: ignore, List: ignore,
	}},
	Offered: {Name: "offered", Next: map[Event]Reader{
		Poll: Polling, Recall: Recalled, Stop: Recalled, Kill: Recalled, List: ignore,
	}},
	Polling: {Name: "polling", Next: map[Event]Reader{
		Handled: Offered, Release: Free, Interrupt: Recalled, Push: ignore, Stop: ignore, Kill: ignore, Recall: ignore, List: ignore,
	}},
	Recalled: {Name: "recalled", Next: map[Event]Reader{
		TakeBack: Free, Stop: ignore, Kill: ignore, Recall: ignore, List: ignore,
	}},
	Ended: {Name: "ended", Next: map[Event]Reader{
		Stop: ignore, Kill: ignore, Recall: ignore, List: ignore, Drained: ignore, WriterEnds: ignore, Orphans: ignore,
	}},
})

var writers = states.New(nil, events, []states.Row[Writer, Event, uint16]{
	Idle: {Name: "idle", Next: map[Event]Writer{
		List: Listed, Take: Writing, Drained: ignore, Hijack: ignore, WriterEnds: Over, Orphans: Over,
	}},
	Listed: {Name: "listed", Next: map[Event]Writer{
		Unlist: Idle, Take: WritingListed, Drained: ignore, Hijack: ignore, WriterEnds: Over, Orphans: Over,
	}},
	Writing:       {Name: "writing", Next: map[Event]Writer{Written: Idle, Leave: Left}},
	WritingListed: {Name: "writing, listed", Next: map[Event]Writer{Written: Listed, Unlist: Writing}},
	Left:          {Name: "left", Next: map[Event]Writer{Resume: Writing}},
	// The flusher may have listed the connection before its end.
	Over: {Name: "over", Next: map[Event]Writer{Unlist: ignore}},
})
