# Tests the scripts of the Helm chart's store with real servers: six nodes on three machines join once, each replica on
# another machine than its primary, and form a cluster again after a rolling restart and after a restart of all nodes,
# each time with new addresses, like pods.
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch free_port top);
use JSON ();
use PostgreSQL::Test::Utils ();
use Test::More;

use constant NODES    => 6;
use constant MACHINES => qw(a a b b c c);
my ($version) = qx{$ENV{STORE_SERVER} --version} =~ /\bv=(\d+\.\d+)/;
plan skip_all => 'the scripts need Valkey, or Redis 7' if $ENV{STORE_SERVER} =~ /keydb/ || $version < 7;

package Node
{
    use parent -norequire, 'Clairon::Test::Process';
    sub command { return @{ $_[0]{command} } }
}

my $folder = scratch();
my $port   = free_port();
mkdir "$folder/$_" or die "could not make $_: $!" for 'bin', 'scripts', map { "data$_" } 0 .. NODES - 1;

sub write_file
{
    my ($path, $text) = @_;
    open my $file, '>', "$folder/$path.new" or die "could not write $path: $!";
    print {$file} $text;
    close $file or die "could not write $path: $!";
    chmod 0755, "$folder/$path.new";
    rename "$folder/$path.new", "$folder/$path" or die "could not write $path: $!";
    return;
}

# The scripts use paths and a port of this test. getent finds the nodes in a file, instead of the name server of
# Kubernetes. Redis 7.0 has no name for humans, so that another setting with a free text contains the machine.
my $scripts = JSON::decode_json(scalar qx{cd '${\ top()}' && python3 tests/lint/chart.py --scripts});
for my $name (keys %$scripts)
{
    write_file("scripts/$name", $scripts->{$name} =~ s{/scripts/}{$folder/scripts/}gr =~ s{/run/secrets/}{$folder/}gr =~ s{/data\b}{\$DATA}gr
          =~ s{\b6379\b}{$port}gr =~ s{(cluster-node-timeout) \d+}{$1 1500}r =~ s{cluster-announce-human-nodename}{$version < 7.2 ? 'syslog-ident' : $&}egr);
}
write_file('store_password', "secret$$\n");
write_file('store_relay_password', "relay$$\n");
write_file('bin/getent', qq{#!/bin/sh\n[ "\$1" = hosts ] && grep -F " \$2" '$folder/hosts'\n});
symlink $ENV{STORE_SERVER}, "$folder/bin/valkey-server" or die "could not link: $!";
symlink $ENV{STORE_SERVER} =~ s/server$/cli/r, "$folder/bin/valkey-cli" or die "could not link: $!";

my @address;
my $generation = 0;

# Assigns new addresses to these nodes.
sub renew
{
    for my $i (@_) { $address[$i] = sprintf '127.%d.%d.%d', 1 + ++$generation, 1 + $$ / 250 % 250, 1 + $$ % 250 }
    write_file('hosts', join '', map { "$address[$_] test-store-$_.test-store.space.svc\n" } grep { $address[$_] } 0 .. NODES - 1);
    return;
}

sub environment
{
    my ($i) = @_;
    return ("PATH=$folder/bin:$ENV{PATH}", 'NAMESPACE=space', "HOSTNAME=test-store-$i", "POD_IP=$address[$i]", "DATA=$folder/data$i",
        "MACHINE=@{[ (MACHINES)[$i] ]}", 'MEMORY_LIMIT=1073741825');
}

sub node
{
    my ($i) = @_;
    my $node = bless { name => "node $i", log => "$folder/node$i.log" }, 'Node';
    Clairon::Test::remember($node);
    return $node;
}

my @nodes = map { node($_) } 0 .. NODES - 1;

sub start { for my $i (@_) { $nodes[$i]{command} = [ 'env', environment($i), 'sh', "$folder/scripts/start.sh" ]; $nodes[$i]->start } return }

# Returns the exit status of a script, run as by Kubernetes in the pod of that node.
sub run { my ($i, $script) = @_; return PostgreSQL::Test::Utils::system_log('env', environment($i), 'sh', "$folder/scripts/$script") >> 8 }

sub cli
{
    my ($i, @arguments) = @_;
    local $ENV{REDISCLI_AUTH} = $arguments[0] eq '--user' ? "relay$$" : "secret$$";
    my ($out, $err) = PostgreSQL::Test::Utils::run_command([ "$folder/bin/valkey-cli", '-p', $port, '-h', $address[$i], @arguments ]);
    return $out;
}

# A poll starts several processes, so it is limited to one per second.
sub wait_ready
{
    for my $i (@_)
    {
        my $next = 0;
        wait_until("node $i is ready", sub { time >= $next && ($next = time + 1) && run($i, 'ready.sh') == 0 });
    }
    return;
}

sub check_cluster
{
    my ($when) = @_;
    # A node is ready before it is connected to all other nodes again.
    wait_until("$when: three primaries have slots, and three nodes are replicas", sub {
        my @lines = grep { !/fail/ } split /\n/, cli(0, 'cluster', 'nodes');
        return 3 == grep({ /\bmaster\b/ && /connected \d/ } @lines) && 3 == grep { /\bslave\b/ } @lines });
    for my $i (0 .. NODES - 1) { like(cli($i, 'cluster', 'slots'), qr/test-store-\d\.test-store\.space\.svc/, "$when: node $i reports host names") }
    return is(cli(0, '-c', 'get', 'kept'), 'yes', "$when: the key still exists");
}

# Returns the machines of each primary and its replica.
sub pairs
{
    my %machine = map { ($address[$_] => (MACHINES)[$_]) } 0 .. NODES - 1;
    my (%primary, %replica);
    for (split /\n/, cli(0, 'cluster', 'nodes'))
    {
        my ($id, $address, $flags, $primary) = /^(\w+) ([\d.]+):\S+ (\S+) (\S+)/;
        if ($flags =~ /slave/) { $replica{$primary} = $machine{$address} }
        else                   { $primary{$id} = $machine{$address} }
    }
    return map { $primary{$_} . ($replica{$_} // '') } sort keys %primary;
}

# place.sh places the replicas of any distribution of nodes over machines that has a solution. The first replica is last.
for my $machines (qw(aaabbb ababab abcabc abcdab aaabcd abcdef))
{
    my $n = 0;
    write_file('placed', join '', map { "$_ $_" . $n++ . "\n" } split //, $machines);
    my ($out, $err) = PostgreSQL::Test::Utils::run_command([ 'sh', '-c', "sh '$folder/scripts/place.sh' <'$folder/placed'" ]);
    my @nodes = split /\n/, $out;
    is_deeply([ sort map { /(\d)/ } @nodes ], [ 0 .. NODES - 1 ], "$machines: each node is placed once");
    is((grep { substr($nodes[$_], 0, 1) eq substr($nodes[ (4, 5, 3)[$_] ], 0, 1) } 0 .. 2), 0, "$machines: no replica is on the machine of its primary");
    is($err, '', "$machines: no warning is printed");
}

renew(0 .. NODES - 1);
start(0 .. NODES - 1);
wait_ready(0 .. NODES - 1);
is_deeply([ map { (split /\n/, cli(0, 'config', 'get', $_))[1] } qw(maxmemory maxmemory-policy) ], [ 644245095, 'noeviction' ],
    'a node rejects writes below the memory limit of its container');
pass('a node is ready before it joins the cluster');
unlike(PostgreSQL::Test::Utils::slurp_file('/proc/' . $_->pid . '/cmdline'), qr/(secret|relay)$$/, "$_->{name} has no password in its arguments") for @nodes;
is(run(0, 'join.sh'), 0, 'the nodes join');
wait_ready(0 .. NODES - 1);
wait_until('the user of the relays can write its keys', sub { cli(0, qw(--user relay -c set clairon:{kept}:x yes)) eq 'OK' });
like(cli(0, qw(--user relay -c set other yes)), qr/NOPERM/, 'the user of the relays cannot write other keys');
like(cli(0, qw(--user relay flushall)), qr/NOPERM/, 'the user of the relays cannot run other commands');
wait_until('a key can be written', sub { cli(0, '-c', 'set', 'kept', 'yes') eq 'OK' });
check_cluster('after join.sh');
my @pairs = pairs();
is(join(' ', sort map { substr $_, 0, 1 } @pairs), 'a b c', 'each primary is on another machine');
is((grep { /^(.)\1?$/ } @pairs), 0, 'each replica is on another machine than its primary') or diag "@pairs";
cli(1, qw(acl deluser relay));
is(run(0, 'join.sh'), 0, 'a second join.sh succeeds');
like(cli(1, qw(acl list)), qr/^user relay on /m, 'a second join.sh sets the user of the relays again');
check_cluster('after a second join.sh');

# Each pod is replaced after the previous pod is ready.
for my $i (reverse 0 .. NODES - 1)
{
    $nodes[$i]->stop;
    renew($i);
    start($i);
    wait_ready($i);
}
wait_ready(0 .. NODES - 1);
check_cluster('after a rolling restart');

$_->kill9 for @nodes;
renew(0 .. NODES - 1);
start(0 .. NODES - 1);
wait_ready(0 .. NODES - 1);
check_cluster('after a restart of all nodes');

my ($replica) = grep { cli($_, 'role') =~ /^slave/ } 0 .. NODES - 1;
cli($replica, 'config', 'set', 'masterauth', 'wrong');
cli($replica, 'client', 'kill', 'type', 'master');
wait_until('the replica loses its primary', sub { cli($replica, 'info', 'replication') =~ /master_link_status:down/ });
isnt(run($replica, 'ready.sh'), 0, 'a replica that is not in sync is not ready');

done_testing();
