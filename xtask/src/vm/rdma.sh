# Runs in the guest. A line a result on 3:
#   step NAME SERVER CLIENT   how both sides ended
#   row NAME SIDE LINE        perftest's columns, of whoever printed them
#   took NAME SECONDS
#   { ... }                   a record of dpb's
iterations=50

# The row under perftest's titles.
row() { grep '^ [0-9]' "$1" | tail -n 1; }

# True if perftest's programs could not tell the clock of the CPU, as often beside other work, and have no figures therefore. Sweeps ask
# for the clock at each size, and have figures of some.
has_no_figures() {
    case $name in
        *-sweep-*) return 1 ;;
        repeat-beside) ! grep -q '"tool":"perftest".*"bytes_per_s":{"values":\[[0-9]' /tmp/client.jsonl ;;
        *) grep -q 'Correlation coefficient' /tmp/server /tmp/client ;;
    esac
}

# Both sides; up to ten times, until perftest has figures.
pair() {
    name=$1
    for try in 1 2 3 4 5 6 7 8 9 10; do
        rm -f /tmp/*.jsonl
        $2 > /tmp/server 2>&1 &
        server=$!
        # perftest's clients do not wait for a server. One that ended at once is not waited for either.
        until netstat -tln | grep -q :18515 || ! kill -0 $server 2> /dev/null; do sleep 0.1; done
        $3 > /tmp/client 2>&1
        client=$?
        wait $server
        server=$?
        has_no_figures || break
    done
    echo "step $name $server $client" >&3
    for side in server client; do
        line=$(row /tmp/$side)
        [ -n "$line" ] && echo "row $name $side $line" >&3
        sed "s/^/$name $side: /" /tmp/$side
    done
    cat /tmp/*.jsonl >&3 2> /dev/null
    rm -f /tmp/*.jsonl
}

alone() {
    name=$1
    shift
    "$@" > /tmp/alone 2>&1
    echo "step $name 0 $?" >&3
    sed "s/^/$name: /" /tmp/alone
    cat /tmp/*.jsonl >&3 2> /dev/null
    rm -f /tmp/*.jsonl
}

# The packets that the device has sent.
sent() { cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts; }

# `unplug PACKETS LINK...`: takes the links down once the device has sent so many more packets. What is measured next is under way
# then, however slow this machine is.
unplug() {
    enough=$(($(sent) + $1))
    shift
    (
        until [ "$(sent)" -ge $enough ]; do sleep 0.1; done
        cut -d. -f1 /proc/uptime > /tmp/unplugged
        for link; do /usr/sbin/ip link set $link down; done
    ) &
    unplugging=$!
}

# `plug NAME LINK...`: says how long after the unplugging NAME ended, and takes the links up again.
plug() {
    ended=$(cut -d. -f1 /proc/uptime)
    name=$1
    shift
    # One still there has not seen its packets, and must not unplug what comes next.
    kill $unplugging 2> /dev/null
    [ -e /tmp/unplugged ] && echo "took $name $((ended - $(cat /tmp/unplugged)))" >&3
    rm -f /tmp/unplugged
    for link; do /usr/sbin/ip link set $link up; done
    sleep 2
}

alone rdma /tests/rdma --nocapture --test-threads 1
alone rdma_bench /tests/rdma_bench --nocapture --test-threads 1
alone doctor dpb doctor
alone op dpb op copy --backend rdma/rxe0 --size 64,4KiB --depth 1,8 --seconds 50ms --repeat 3 --out /tmp/op.jsonl

serve="--server --listen 0.0.0.0 --out /tmp/server.jsonl"
go="--out /tmp/client.jsonl 10.0.0.1"
for verb in read write send; do
    for method in lat bw; do
        peer="ib_${verb}_$method -d rxe0 -x 1 -F -n $iterations"
        ours="dpb rdma $method --verb $verb --device rxe0 --gid-index 1 --iterations $iterations --inline 0 --format perftest"
        pair $verb-$method-perftest-perftest "$peer" "$peer 10.0.0.1"
        pair $verb-$method-dpb-dpb "$ours $serve" "$ours $go"
        pair $verb-$method-perftest-dpb "$peer" "$ours $go"
        pair $verb-$method-dpb-perftest "$ours $serve" "$peer 10.0.0.1"
        pair $verb-$method-cm-dpb-dpb "$ours --cm $serve" "$ours --cm $go"
    done
done

# Several runs, and then perftest's program on both sides.
ours="dpb rdma bw --verb write --device rxe0 --gid-index 1 --iterations $iterations --repeat 3 --beside"
pair repeat-beside "$ours $serve" "$ours $go"

# All of perftest's sizes: sides that send wait for each other in between.
ours="--verb send --device rxe0 --gid-index 1 --iterations 5 --size 2..8388608 --format perftest"
peer="-d rxe0 -x 1 -F -n 5 -a"
pair send-lat-sweep-perftest-dpb "ib_send_lat $peer" "dpb rdma lat $ours $go"
pair send-bw-sweep-dpb-perftest "dpb rdma bw $ours $serve" "ib_send_bw $peer 10.0.0.1"

# Unplugged in the middle: both sides end, soon, and say why.
ours="dpb rdma bw --verb write --device rxe0 --iterations 1000000"
unplug 1000 v0
pair unplugged "$ours $serve" "$ours $go"
plug unplugged v0
DPB_RDMA_LINK=v0 alone rdma_link /tests/rdma_link --nocapture --test-threads 1
sleep 2

# The pushdown, its rows by RDMA and over TCP.
pushdown="dpb pushdown --sf 0.01 --data-dir /data --schemes dpb --threads 1 --selectivity 0.3 --batch-rows 4096 --out /tmp/pushdown.jsonl"
alone rdma_bulk /tests/rdma_bulk --nocapture --test-threads 1
alone pushdown-tcp $pushdown --repeat 2
alone pushdown-rdma $pushdown --repeat 2 --bulk rdma/rxe0
alone pushdown-paced $pushdown --repeat 1 --bulk rdma/rxe0 --link-gbps 10
alone pushdown-absent $pushdown --repeat 1 --bulk rdma/no-such

# Unplugged in the middle: the way of its rows, its agent being on loopback; then TCP, which to an address of this machine goes by lo.
unplug 10000 v0
alone pushdown-unplugged $pushdown --repeat 1000000 --bulk rdma/rxe0
plug pushdown-unplugged v0
dpb serve init /tmp/credentials > /tmp/init 2>&1 || sed "s/^/agent: /" /tmp/init
dpb serve --listen 10.0.0.1:7400 --data-dir /data --credentials /tmp/credentials --bulk rdma/rxe0 > /tmp/agent 2>&1 &
agent=$!
until netstat -tln | grep -q :7400 || ! kill -0 $agent 2> /dev/null; do sleep 0.1; done
unplug 10000 lo
alone pushdown-cut $pushdown --repeat 1000000 --bulk rdma/rxe0 --server 10.0.0.1:7400 --credentials /tmp/credentials/client.credentials
plug pushdown-cut lo
kill $agent
sed "s/^/agent: /" /tmp/agent

# Jobs of another machine, their bytes by RDMA; then the device is unplugged in the middle, which TCP on loopback does not see.
dpb serve --listen 127.0.0.1:7401 --data-dir /data --bulk rdma/rxe0 > /tmp/agent 2>&1 &
agent=$!
until netstat -tln | grep -q :7401 || ! kill -0 $agent 2> /dev/null; do sleep 0.1; done
remote="dpb op copy --backend remote-rdma/127.0.0.1:7401/cpu --batch 1 --out /tmp/op.jsonl"
alone remote-op $remote --size 64,64KiB --depth 1,8 --seconds 50ms --repeat 3
DPB=/usr/bin/dpb alone remote_rdma /tests/remote_rdma --nocapture --test-threads 1
unplug 10000 v0
alone remote-unplugged $remote --size 64KiB --depth 8 --seconds 1 --repeat 1000
plug remote-unplugged v0
kill $agent
sed "s/^/agent: /" /tmp/agent
