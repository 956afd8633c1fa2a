package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

const (
	// group is the number of writes that are measured together.
	group = 64
	// reads is the number of lookups between two measurements of the time.
	reads      = 256
	onANode    = 100
	namespaces = 20
)

// writing describes updates of one goroutine, and the resource use of its thread.
type writing struct {
	Writes      uint64  `json:"writes"`
	Wall        float64 `json:"wall"`
	CPU         float64 `json:"cpu"`
	GroupCPUP99 float64 `json:"groupCpuP99"`
	Waits       uint64  `json:"waits"`
}

// storeRound is the result that crates/bench/src/stores/program.rs prints for other stores.
type storeRound struct {
	Objects         int     `json:"objects"`
	Alone           writing `json:"alone"`
	GetNs           float64 `json:"getNs"`
	LookNs          float64 `json:"lookNs"`
	ScatteredLookNs float64 `json:"scatteredLookNs"`
	SharedGetNs     float64 `json:"sharedGetNs"`
	ListNs          float64 `json:"listNs"`
	VisitNs         float64 `json:"visitNs"`
	ByIndexNs       float64 `json:"byIndexNs"`
	Read            writing `json:"read"`
	ListsPerS       float64 `json:"listsPerS"`
}

// smallPod is a Pod with only its metadata and its node.
type smallPod struct {
	metav1.ObjectMeta
	node string
}

// store contains the indexer of client-go, and the Pods that are written to it, each in two states.
type store struct {
	indexer cache.Indexer
	states  [2][]*smallPod
	// keys are in the order of the writes, and scattered are in another order.
	keys, scattered []string
	order           []int
	turn            int
}

// runStore measures only the indexer.
func runStore(args []string) error {
	flags := flag.NewFlagSet("store", flag.ExitOnError)
	objects := flags.Int("objects", 0, "number of Pods")
	readers := flags.Int("readers", 0, "number of goroutines that list all Pods while one writes")
	millis := flags.Int("millis", 0, "how long each kind of use goes on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	// CPU time and waits are measured per thread.
	runtime.LockOSThread()
	s, err := newStore(*objects)
	if err != nil {
		return err
	}
	line, err := json.Marshal(s.measure(time.Duration(*millis)*time.Millisecond, *readers))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stdout, string(line))
	return err
}

func newStore(objects int) (*store, error) {
	byNode := func(object any) ([]string, error) { return []string{object.(*smallPod).node}, nil }
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "node": byNode}
	s := &store{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)}
	s.order = rand.New(rand.NewSource(7)).Perm(objects)
	all := make([]any, objects)
	for state := range s.states {
		for number := range objects {
			s.states[state] = append(s.states[state], pod(number, objects, state+1))
		}
	}
	for number, pod := range s.states[0] {
		all[number] = pod
	}
	for _, number := range s.order {
		pod := s.states[0][number]
		s.keys = append(s.keys, pod.Namespace+"/"+pod.Name)
	}
	for _, number := range rand.New(rand.NewSource(8)).Perm(objects) {
		pod := s.states[0][number]
		s.scattered = append(s.scattered, pod.Namespace+"/"+pod.Name)
	}
	return s, s.indexer.Replace(all, "1")
}

func pod(number, count, version int) *smallPod {
	return &smallPod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            fmt.Sprintf("web-7d4b9c6f5-%07d", number),
			Namespace:       fmt.Sprintf("team-%02d", number%namespaces),
			ResourceVersion: fmt.Sprint(version),
			UID:             types.UID(fmt.Sprintf("8f14e45f-ceea-467f-a0e6-%012d", number)),
		},
		node: node(number % nodes(count)),
	}
}

func nodes(count int) int { return (count + onANode - 1) / onANode }

func node(number int) string { return fmt.Sprintf("node-%05d", number) }

func (s *store) measure(wanted time.Duration, readers int) storeRound {
	count := len(s.order)
	names := make([]string, nodes(count))
	for number := range names {
		names[number] = node(number)
	}
	var round storeRound
	round.Alone = s.writeFor(wanted)
	round.GetNs = readFor(wanted, reads, func(turn int) { s.get(s.keys[turn%count]) })
	round.LookNs = readFor(wanted, reads, func(turn int) { looked += s.look(s.keys[turn%count]) })
	round.ScatteredLookNs = readFor(wanted, reads, func(turn int) { looked += s.look(s.scattered[turn%count]) })
	round.SharedGetNs = s.getBesideAnother(wanted)
	round.ListNs = readFor(wanted, 1, func(int) { s.indexer.List() }) / float64(count)
	round.VisitNs = readFor(wanted, 1, func(int) { looked += s.visit() }) / float64(count)
	round.ByIndexNs = readFor(wanted, 1, func(turn int) {
		if _, err := s.indexer.ByIndex("node", names[turn%len(names)]); err != nil {
			panic(err)
		}
	})
	round.Read, round.ListsPerS = s.writeAmongReaders(wanted, readers)
	round.Objects = len(s.indexer.List())
	return round
}

func (s *store) get(key string) *smallPod {
	object, found, err := s.indexer.GetByKey(key)
	if !found || err != nil {
		panic("an object is missing")
	}
	return object.(*smallPod)
}

// look also reads the Pod. It returns the length of the name of its node.
func (s *store) look(key string) int { return len(s.get(key).node) }

// visit reads the node of each Pod.
func (s *store) visit() int {
	length := 0
	for _, object := range s.indexer.List() {
		length += len(object.(*smallPod).node)
	}
	return length
}

// getBesideAnother looks up objects while another goroutine does the same. It returns the CPU time per lookup in nanoseconds.
func (s *store) getBesideAnother(wanted time.Duration) float64 {
	var over atomic.Bool
	var done sync.WaitGroup
	count := len(s.scattered)
	done.Go(func() {
		for turn := 0; !over.Load(); turn++ {
			s.get(s.scattered[turn%count])
		}
	})
	ns := readFor(wanted, reads, func(turn int) { s.get(s.scattered[turn%count]) })
	over.Store(true)
	done.Wait()
	return ns
}

// writeFor writes for this time, one Pod after the other.
func (s *store) writeFor(wanted time.Duration) writing {
	var written writing
	var groups []float64
	for begun := time.Now(); len(groups) == 0 || time.Since(begun) < wanted; {
		batch := s.prepare()
		waitsBefore, cpu, at := waits(), threadCPU(), time.Now()
		for _, pod := range batch {
			if err := s.indexer.Update(pod); err != nil {
				panic(err)
			}
		}
		wall := time.Since(at).Seconds()
		groups = append(groups, threadCPU()-cpu)
		written.Wall += wall
		written.CPU += groups[len(groups)-1]
		written.Waits += waits() - waitsBefore
	}
	slices.Sort(groups)
	written.Writes = uint64(len(groups) * group)
	written.GroupCPUP99 = groups[min(len(groups)*99/100, len(groups)-1)]
	return written
}

// prepare returns the next Pods to write. It reads them, so that they are in the CPU cache like Pods that were just decoded.
func (s *store) prepare() []*smallPod {
	batch := make([]*smallPod, group)
	for at := range batch {
		state := 1 - s.turn/len(s.order)%2
		batch[at] = s.states[state][s.order[s.turn%len(s.order)]]
		seen := *batch[at]
		looked = len(seen.Namespace + seen.Name + seen.node + seen.ResourceVersion + string(seen.UID))
		s.turn++
	}
	return batch
}

// looked prevents the compiler from removing reads.
var looked int

// writeAmongReaders writes while readers list all Pods. It also returns the number of lists per second.
func (s *store) writeAmongReaders(wanted time.Duration, readers int) (writing, float64) {
	var lists atomic.Uint64
	var over atomic.Bool
	var done sync.WaitGroup
	for range readers {
		done.Go(func() {
			for !over.Load() {
				s.indexer.List()
				lists.Add(1)
			}
		})
	}
	begun := time.Now()
	written := s.writeFor(wanted)
	perSecond := float64(lists.Load()) / time.Since(begun).Seconds()
	over.Store(true)
	done.Wait()
	return written, perSecond
}

// readFor reads for this time, and measures the time after each unit of reads. It returns the CPU time per read in nanoseconds.
func readFor(wanted time.Duration, unit int, read func(turn int)) float64 {
	turn, cpu := 0, threadCPU()
	for begun := time.Now(); turn == 0 || time.Since(begun) < wanted; {
		for range unit {
			read(turn)
			turn++
		}
	}
	return (threadCPU() - cpu) * 1e9 / float64(turn)
}

// threadCPU returns the CPU time of this thread in seconds.
func threadCPU() float64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return float64(now.Nano()) / 1e9
}

// waits returns the number of voluntary context switches of this thread.
func waits() uint64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &usage); err != nil {
		panic(err)
	}
	return uint64(usage.Nvcsw)
}
