# SPDX-License-Identifier: Apache-2.0
# Functions of the guest's job. A step prints its begin and end for the host (tools/linux.py).
DRIVER=/sys/bus/pci/drivers/efa

step() {  # step NAME COMMAND...: runs a command, prints its output between two marks
    name=$1
    shift
    sent=$(packets)
    echo "@@begin $name"
    before=$(cut -d' ' -f1 /proc/uptime)
    ("$@") 2>&1
    code=$?
    after=$(cut -d' ' -f1 /proc/uptime)
    echo "@@end $name $code $before $after $(($(packets) - sent))"
}

devices() {  # the RDMA devices, in the order of the PCI functions
    for each in /sys/class/infiniband/*; do basename "$each"; done
}

device() {  # device NUMBER: name of the NUMBER-th RDMA device, from 1 on
    devices | sed -n "${1}p"
}

wait_for_devices() {  # wait_for_devices COUNT
    for _ in $(seq 100); do
        [ "$(ls /sys/class/infiniband 2>/dev/null | wc -l)" -eq "$1" ] && return 0
        sleep 0.1
    done
    echo "found $(ls /sys/class/infiniband 2>/dev/null | wc -l) RDMA devices, expected $1"
    return 1
}

load() {  # load COUNT: loads the driver, waits for its devices
    insmod /usr/lib/modules/efa.ko && wait_for_devices "$1"
}

reload() {  # reload COUNT TIMES: unloads and loads the driver
    for _ in $(seq "$2"); do
        rmmod efa && load "$1" || return 1
    done
}

rebind() {  # rebind COUNT: unbinds each function, resets it by an FLR, binds it again
    for path in "$DRIVER"/0000:*; do
        function=$(basename "$path")
        echo "$function" > "$DRIVER/unbind" || return 1
        echo flr > "/sys/bus/pci/devices/$function/reset_method" || return 1
        echo 1 > "/sys/bus/pci/devices/$function/reset" || return 1
        echo "$function" > "$DRIVER/bind" || return 1
    done
    wait_for_devices "$1"
}

pair() {  # pair SERVER -- CLIENT: both programs must end without an error
    server=
    while [ "$1" != -- ]; do
        server="$server $1"
        shift
    done
    shift
    $server > /tmp/server.log 2>&1 &
    pid=$!
    sleep 1
    "$@"
    code=$?
    [ $code -eq 0 ] || kill $pid 2>/dev/null
    wait $pid || code=$?
    [ $code -eq 0 ] || sed 's/^/server: /' /tmp/server.log
    return $code
}

store_rate() {  # store_rate COUNT: stores without a driver, then loads it again
    rmmod efa || return 1
    function=$(lspci -D -d 1d0f: | head -n 1 | cut -d' ' -f1)
    echo 1 > "/sys/bus/pci/devices/$function/enable"
    python3 /job/store_rate.py "$function"
    code=$?
    echo 0 > "/sys/bus/pci/devices/$function/enable"
    load "$1" && return $code
}

network() {  # network NUMBER: the address of this guest, 10.0.0.NUMBER
    ip addr add "10.0.0.$1/24" dev eth0 && ip link set eth0 up
}

client() {  # client COMMAND...: a client whose server, in another guest, may not run yet
    for _ in $(seq 20); do
        "$@" > /tmp/client.log 2>&1 && break
        sleep 1
    done
    code=$?
    cat /tmp/client.log
    return $code
}

efa_tests() {  # rdma-core's own tests of EFA
    cd /root && python3 tests/run_tests.py --dev "$(device 1)" -v test_efa_srd test_efadv
}

packets() {  # packets sent by all devices so far
    cat /sys/class/infiniband/*/ports/1/hw_counters/tx_pkts 2>/dev/null |
        awk '{ n += $1 } END { print n + 0 }'
}

mpi() {  # mpi RANKS PROGRAM...: an MPI program whose messages must cross the device
    export FI_PROVIDER=efa FI_EFA_ENABLE_SHM_TRANSFER=0 FI_EFA_FORK_SAFE=0
    export OMPI_MCA_pml=cm OMPI_MCA_mtl=ofi OMPI_MCA_btl=self OMPI_MCA_mtl_ofi_provider_include=efa
    export OMPI_MCA_coll=^ucc,xhc,acoll OMPI_MCA_osc=^ucx OMPI_MCA_mpi_yield_when_idle=1
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
    ranks=$1 before=$(packets)
    shift
    mpirun.openmpi -np "$ranks" --oversubscribe --bind-to none "$@" || return 1
    after=$(packets)
    echo "$((after - before)) packets sent by the device"
    [ "$after" -gt "$before" ]
}
