#!/bin/busybox sh
# The first process of either guest: a network card of virtio, then the transfer. Results go to the second serial port, a line each:
#   sent SHA256       of the file that the client sends
#   got SHA256        of what the server received
#   ping MS           the shortest of the client's round trips
#   iperf3 JSON       the client's record of iperf3
#   sums COUNT        segments with wrong checksums
#   end
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs tmp /tmp
stty -F /dev/ttyS1 raw
exec 3> /dev/ttyS1
# On virtual time a core that waits is emulated, too, and the kernel's loop for that is slower to emulate than any other.
case " $(cat /proc/cmdline) " in
*" busy "*)
    awk 'BEGIN { while (1) n++ }' &
    renice -n 19 -p $!
    ;;
esac
while read -r module; do
    insmod "/modules/$module.ko"
done < /modules/order
for word in $(cat /proc/cmdline); do
    case $word in guest=*) number=${word#guest=} ;; esac
done
ip link set lo up
ip link set eth0 up
ip addr add 10.0.0.$number/24 dev eth0
# Bits are flipped on the way, and no digest is behind what asks for addresses.
other=$((3 - number))
arp -s 10.0.0.$other 02:00:00:00:00:0$other
if [ "$number" = 1 ]; then
    # Kept open for writing, so that the server's side ends with the client's.
    mkfifo /tmp/open
    exec 9<> /tmp/open
    nc -l -p 5001 <&9 > /tmp/got
    echo "got $(sha256sum < /tmp/got | cut -d' ' -f1)" >&3
    iperf3 -s -1 > /dev/null
else
    # No random bytes: on virtual time two runs are to be the same.
    dd if=/bin/busybox of=/tmp/file bs=64k count=16 2> /dev/null
    echo "sent $(sha256sum < /tmp/file | cut -d' ' -f1)" >&3
    until ping -c 1 -W 1 10.0.0.1 > /dev/null; do :; done
    echo "ping $(ping -c 5 10.0.0.1 | sed -n 's/.*min.* = \([0-9.]*\)\/.*/\1/p')" >&3
    until nc 10.0.0.1 5001 < /tmp/file; do sleep 1; done
    # With -J iperf3 ends well even if nobody listens yet.
    until iperf3 -c 10.0.0.1 -n 1M -J > /tmp/iperf3; grep -q bits_per_second /tmp/iperf3; do sleep 1; done
    echo "iperf3 $(tr -d '\n\t' < /tmp/iperf3)" >&3
fi
# Names in a line, numbers in the next.
echo "sums $(grep '^Tcp:' /proc/net/snmp | tail -n 1 | awk '{ print $16 }')" >&3
echo end >&3
poweroff -f
