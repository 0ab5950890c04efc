package event

import (
	"encoding/json"
	"reflect"
)

// kinds has one of every event.
var kinds = []Event{
	EndpointOpened{},
	SocketBufferRefused{},
	EndpointFailed{},
	PeerConnected{},
	PeerDisconnected{},
	StrangerRefused{},
	ModelInspected{},
	SliceProgressed{},
	SliceReady{},
	WorkerStarted{},
	WeightsProgressed{},
	StageLoaded{},
	ChainReady{},
	ChainFaulted{},
	MemberStateChanged{},
	MemberViewLost{},
	BootStarted{},
	FactProven{},
	FactFailed{},
	NodeBecameAvailable{},
	NodeFaulted{},
	NodeLeft{},
	NodeStatusUnwritten{},
	StagePhaseChanged{},
	StageExamined{},
	StageAdmitted{},
	ReportUnwritten{},
	StageTornDown{},
	StageTeardownDelayed{},
	EdgeRefused{},
	PoolDefined{},
	PoolPhaseChanged{},
	PoolBecameReady{},
	PoolReadinessLost{},
	PoolFormationEnded{},
	NodeAcknowledged{},
	NodeRefused{},
	NodeDialledBack{},
	NodeReportedAvailable{},
	NodeReportedFault{},
	NodeReportedLeaving{},
	NodeBootReplaced{},
	LeaseGranted{},
	LeaseEnded{},
	OfferReleased{},
	OfferFailed{},
	OfferDelayed{},
	DownloadProgressed{},
	RegistrationRefused{},
	ModelPublished{},
	TokenizerStarted{},
	TokenizerLost{},
	RunPlanned{},
	RunPhaseChanged{},
	RunStageProgressed{},
	RunStageReady{},
	RunStageFaulted{},
	RunStageFreed{},
	RunServed{},
	RunEnded{},
	RunTeardownOverdue{},
	ReferenceProgressed{},
	EventsDropped{},
}

var byName = func() map[string]reflect.Type {
	types := make(map[string]reflect.Type, len(kinds))
	for _, k := range kinds {
		types[k.Name()] = reflect.TypeOf(k)
	}
	return types
}()

// Parse reads an event that Stamped wrote; known is false where it is of no
// kind that this build knows.
func Parse(line []byte) (e Event, known bool) {
	var head struct {
		Event string `json:"event"`
	}
	if json.Unmarshal(line, &head) != nil {
		return nil, false
	}
	t, known := byName[head.Event]
	if !known {
		return nil, false
	}
	v := reflect.New(t)
	if json.Unmarshal(line, v.Interface()) != nil {
		return nil, false
	}
	return v.Elem().Interface().(Event), true
}
