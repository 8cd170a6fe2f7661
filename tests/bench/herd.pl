# Measures the cost of 5000 clients that connect simultaneously and request their rows, of the same clients that request
# them again after the store was emptied (a new epoch), and of a list of 100 rows: time, queries, connections, CPU,
# memory, and the latency of notifications to another client. The rows are a whole list, or the newest 50 of 200 rows of each
# user, in a table of a million.
use strict;
use warnings;

use Clairon::Test qw(token scratch top wait_until);
use JSON ();
use POSIX ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Targets;
use Test::More;

my $SCRIPT  = top() . '/tests/bench/herd_clients.js';
my $CLIENTS = $ENV{BENCH_HERD_CLIENTS} // 5000;
my $LISTS   = 1000;    # lists of 100 rows
sub figure { note('bench: ' . sprintf shift, @_); return }

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', qq{
    CREATE TABLE tasks (id int PRIMARY KEY, owner text, team text, body text);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    CREATE INDEX ON tasks (owner);
    CREATE INDEX ON tasks (team);
    INSERT INTO tasks SELECT i, 'u' || i % $CLIENTS, 't' || i % 50, repeat('x', 100) FROM generate_series(1, 5 * $CLIENTS) i;
    INSERT INTO tasks SELECT 5 * $CLIENTS + i, 'reader', 'none', repeat('x', 100) FROM generate_series(1, 100) i;
    CREATE TABLE messages (id int PRIMARY KEY, owner text, at timestamptz, body text);
    ALTER TABLE messages REPLICA IDENTITY FULL;
    INSERT INTO messages SELECT i, 'u' || i % $CLIENTS, timestamptz '2025-01-01Z' + i * interval '1 s', repeat('x', 100) FROM generate_series(1, 200 * $CLIENTS) i;
    CREATE INDEX ON messages (owner, at DESC, id);
    CREATE TABLE probes (id bigserial PRIMARY KEY, owner text);
    SELECT clairon.watch('tasks', 'USER', 'owner', name => 'user', live => true);
    SELECT clairon.watch('tasks', 'TEAM', 'team', name => 'team', live => true);
    SELECT clairon.watch('messages', 'USER', 'owner', live => true, filter_columns => '{at}');
    SELECT clairon.watch('probes', 'USER', 'owner');
    ANALYZE});
my $store = Clairon::Test::store();

sub memory { my ($pid, $field) = @_; open my $file, '<', "/proc/$pid/status" or die $!; return (join('', <$file>) =~ /^$field:\s+(\d+)/m)[0] / 1024 }

sub cpu
{
    my $ticks = 0;
    for my $pid (@_)
    {
        open my $file, '<', "/proc/$pid/stat" or next;
        my @fields = split / /, <$file> =~ s/^.*\) //r;
        $ticks += $fields[11] + $fields[12];
    }
    return $ticks / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}

# Returns the number of the relay's database connections for rows.
sub backends { return split /\n/, $pg->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE query LIKE '%live_rows%' AND pid <> pg_backend_pid()}) }

sub write_probes
{
    my $pid = fork // die "could not fork: $!";
    return $pid if $pid;
    open STDERR, '>', '/dev/null' or POSIX::_exit(1);
    my $parent = getppid;
    while (getppid == $parent) { eval { $pg->psql('postgres', q{INSERT INTO probes (owner) SELECT 'probe' FROM pg_sleep(0.01)}) } }
    POSIX::_exit(0);
}

sub write_json { my ($name, $value) = @_; my $path = scratch() . "/$name.json"; open my $out, '>', $path or die $!; print {$out} JSON::encode_json($value); close $out or die $!; return $path }
sub share { my ($share, @sorted) = @_; return $sorted[ $share * $#sorted ] // -1 }

# Starts a client that receives the rows of write_probes() and writes their latencies in ms to the file.
sub start_probe
{
    my ($relay, $file) = @_;
    my $conf = write_json('probe', { probe => token(sub => 'probe') });
    my $pid  = fork // die "could not fork: $!";
    return $pid if $pid;
    open STDOUT, '>', $file or POSIX::_exit(1);
    exec 'node', $SCRIPT, $relay->{port}, $conf or POSIX::_exit(1);
}

sub latencies { my ($file, $from) = @_; my @lines = split /\n/, slurp_file($file); return sort { $a <=> $b } @lines[ $from .. $#lines ] }

# Prints the figures of one phase: the reply of the clients, and the differences of the counters to those before it.
sub report
{
    my ($phase, $rule, $herd, $used, $latencies) = @_;
    figure('%s of %d, rule by %s: rows after %d ms (half: %d, 99 %%: %d), %d queries, 111: %d, rejected: %d',
        $phase, $CLIENTS, $rule, @$herd{qw(ms half most)}, $used->{queries}, @$herd{qw(busy rejected)});
    figure('  %d database connections; CPU %.1f s of the relay, %.1f s of the database', scalar(backends()), @$used{qw(relay database)});
    figure('  latency of notifications: p50 %d ms, p99 %d ms', share(0.5, @$latencies), share(0.99, @$latencies));
    Targets::record("$phase of $CLIENTS, rule by $rule: queries per client", 'at most 1.1',
        sprintf('%.2f', $used->{queries} / $CLIENTS), $used->{queries} / $CLIENTS <= 1.1);
    return;
}

sub counters { my ($relay) = @_; return (queries => $relay->metric('clairon_rows_query_seconds_count'), relay => cpu($relay->pid), database => cpu(backends())) }

sub report_list
{
    my ($herd, $used, $latencies) = @_;
    figure('%d times 100 rows for one client: %.1f ms each; CPU %.2f ms of the relay, with the notifications of others, and %.2f ms of the database',
        $LISTS, $herd->{ms} / $LISTS, map { $_ * 1000 / $LISTS } @$used{qw(relay database)});
    figure('  latency of notifications: p50 %d ms, p99 %d ms', share(0.5, @$latencies), share(0.99, @$latencies));
    return;
}

my @herd = map { token(sub => "u$_", groups => { TEAM => [ 't' . $_ % 50 ] }) } 0 .. $CLIENTS - 1;
my %list_of = (map({ $_ => { source => 'tasks', rule => $_ } } qw(team user)), 'user, limit 50' => { source => 'messages', order => ['-at'], limit => 50 });
for my $case (grep { $_->[0] =~ ($ENV{BENCH_HERD_RULE} // '') } [ 'team', 1, @herd ], [ 'user', 1, @herd ], [ 'user, limit 50', 1, @herd ], [ 'user', $LISTS, token(sub => 'reader') ])
{
    my ($rule, $lists, @tokens) = @$case;
    my @phases = $lists == 1 ? ('connection', 'new epoch') : ('list');
    my $relay  = Clairon::Test::relay($pg, $store, conf => { 'relay.log_level' => 'info', 'gate.connect_timeout' => '1m' });
    my $file   = write_json('herd', { list => $list_of{$rule}, lists => $lists, epochs => $#phases, tokens => \@tokens });
    my $probed = scratch() . "/" . ($rule =~ s/\W+/-/gr) . "-$lists.latencies";
    my @pids   = (start_probe($relay, $probed), write_probes());
    wait_until('notifications arrive', sub { -s $probed && 300 < (() = latencies($probed, 0)) });
    my @idle = latencies($probed, 0);
    figure('rule by %s: %.0f MB of the relay; latency without the herd: p50 %d, p99 %d ms', $rule, memory($relay->pid, 'VmRSS'), share(0.5, @idle), share(0.99, @idle));
    my ($seen, %before) = (scalar @idle, counters($relay));
    open my $clients, '-|', 'node', $SCRIPT, $relay->{port}, $file or die "could not start node: $!";
    for my $phase (@phases)
    {
        $store->execute('FLUSHALL') if $phase eq 'new epoch';
        my $herd = JSON::decode_json(scalar(<$clients>));
        my @latencies = latencies($probed, $seen);
        my %after = counters($relay);
        my %used = map { $_ => $after{$_} - $before{$_} } keys %after;
        ok($herd->{ms}, "$phase: all clients of the rule \"$rule\" receive their rows") or diag(JSON::encode_json($herd));
        last unless $herd->{ms};
        $lists > 1 ? report_list($herd, \%used, \@latencies) : report($phase, $rule, $herd, \%used, \@latencies);
        $seen += @latencies;
        %before = %after;
    }
    close $clients;
    kill TERM => @pids;
    waitpid $_, 0 for @pids;
    figure('  at most %.0f MB of the relay', memory($relay->pid, 'VmHWM'));
    $relay->stop;
}
done_testing();
