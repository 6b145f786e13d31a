#!/bin/busybox sh
# The guest's first process: devices, modules, two ends of a link, soft-RoCE on one; then the tests. Results go to the second
# serial port.
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
stty -F /dev/ttyS1 raw
exec 3> /dev/ttyS1
while read -r module; do
    insmod "/modules/$module.ko"
done < /modules/order
# By full path: busybox has an ip of its own, which knows less.
/usr/sbin/ip link set lo up
/usr/sbin/ip link add v0 type veth peer name v1
/usr/sbin/ip addr add 10.0.0.1/24 dev v0
/usr/sbin/ip link set v0 up
/usr/sbin/ip link set v1 up
# The address is usable once duplicates were looked for.
sleep 2
/usr/bin/rdma link add rxe0 type rxe netdev v0
DPB_QEMU=1 sh /tests.sh
printf 'end\n' >&3
poweroff -f
