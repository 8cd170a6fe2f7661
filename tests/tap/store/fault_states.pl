# Tests a store that loads its dataset, is full, cannot save, is a replica, requires a password, or is stopped: no row
# is lost, and the cause is logged.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Process;
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => "wal_sender_timeout = 2s\n");
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store = Clairon::Test::store(fsync => 'always', options => [ '--rdbcompression', 'no' ]);
my $proxy = Clairon::Test::proxy($store->{socket});    # this relay uses TCP
my $relay = Clairon::Test::relay($pg, $store, conf => {
    'store.url' => $proxy->url('redis'),
    'gate.ping' => '1h' });    # the client sends no pong while the test waits for other events
my $client = $relay->client('u1');
my $rows   = 0;

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub insert { sql(sprintf q{INSERT INTO t VALUES (%d, 'u1')}, ++$rows); return $rows }
sub config { return $store->execute('CONFIG', 'SET', @_) }

sub confirmed_since
{
    return sql("SELECT confirmed_flush_lsn >= '$_[0]' FROM pg_replication_slots") eq 't';
}

# Checks that the fault caused by `$break` is logged, no LSN is confirmed during the fault, and all rows are stored
# after `$repair`.
sub check_survives
{
    my ($name, $message, $break, $repair) = @_;
    my $mark = $relay->log_mark;
    $break->();
    insert() for 1 .. 3;
    my $written = sql('SELECT pg_current_wal_lsn()');
    $relay->wait_for_log($message, from => $mark);
    is(($relay->get("/readyz?need=feed"))[0], 503, "$name: /readyz?need=feed returns 503");
    ok(!confirmed_since($written), "$name: rows that are not stored are not confirmed");
    $repair->();
    my $last = insert();
    $client->wait_row($last);
    my @stored = map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 'none' } $store->entries;
    is_deeply(\@stored, [ 1 .. $rows ], "$name: each row is stored once, in order");
    is_deeply([ sort { $a <=> $b } map { $_->{payload}{after}{id} } $client->notifications ], [ 1 .. $rows ],
        "$name: each row is delivered once to a live client");
    is($client->gaps, '', "$name: the client receives no gap");
    wait_until("$name: all changes are confirmed at the end", sub { confirmed_since($written) });
    wait_until("$name: the feed streams again", sub { ($relay->get("/readyz?need=feed"))[0] == 200 });
    return;
}

my $mark = $relay->log_mark;
check_survives('full', qr/OOM command not allowed.*raise maxmemory/,
    sub { config('maxmemory', 1) },
    sub {
        # While the store is full, store readers receive no reply, and must not treat the store as lost.
        my $until = time + 11;
        wait_until('the readers\' timeout has passed', sub { time > $until });
        config('maxmemory', 0);
    });
unlike($relay->log_text($mark), qr/reply timed out/, 'the relay does not treat a full store as lost');

check_survives('started full', qr/OOM command not allowed/,
    sub {
        push @{ $store->{options} }, '--maxmemory', 1;
        $store->restart;
        splice @{ $store->{options} }, -2;
        $client->run_until('a client resumes', sub {
            my $reader = $relay->client('u1', pos => $client->pos);
            return $reader->{messages}[0]{resumed} });
        pass('a store that is full when it starts can be read');
    },
    sub { config('maxmemory', 0) });

check_survives('cannot save', qr/MISCONF.*check its log/,
    sub {
        config('save', '3600 1');
        chmod 0555, $store->{folder};
        wait_until('a save failed', sub {
            eval { $store->execute('BGSAVE') };
            $store->execute('INFO', 'persistence') =~ /^rdb_last_bgsave_status:err/m });
    },
    sub {
        chmod 0755, $store->{folder};
        wait_until('a save succeeded', sub {
            eval { $store->execute('BGSAVE') };
            $store->execute('INFO', 'persistence') =~ /^rdb_last_bgsave_status:ok/m });
        config('save', '');
    });

check_survives('a replica', qr/READONLY.*must name the primary/,
    sub { $store->execute('REPLICAOF', '127.0.0.1', Clairon::Test::free_port()) },
    sub { $store->execute('REPLICAOF', 'NO', 'ONE') });

check_survives('a new password', qr/NOAUTH.*add user and password/,
    sub { config('requirepass', 'secret'); $proxy->cut },
    sub { config('requirepass', '') });

check_survives('still', qr/component=store(?:-\d)? level.*reply timed out/,
    sub { $store->pause },
    sub { kill CONT => $store->pid });

check_survives('restarted, with a slow load', qr/store is loading its dataset/,
    sub {
        # The server pauses after loading each of these unrelated keys, and replies to clients after every 2 MB.
        $store->execute('EVAL', q{for i = 1, 1500 do redis.call('SET', 'other:' .. i, string.rep('x', 8192)) end}, 0);
        $store->execute('BGREWRITEAOF');
        wait_until('the file is rewritten', sub {
            my $info = $store->execute('INFO', 'persistence');
            $info =~ /^aof_rewrite_in_progress:0/m && $info =~ /^aof_rewrite_scheduled:0/m });
        $store->kill9;
        push @{ $store->{options} }, '--key-load-delay', 3000;
        unlink $store->{socket};
        Clairon::Test::Process::start($store);
    },
    sub {
        wait_until('the dataset is loaded', sub {
            (eval { $store->execute('INFO', 'persistence') } // '') =~ /^loading:0/m });
    });

# Authentication fails with a wrong password, and succeeds for a user with minimal permissions.
$store->execute('ACL', 'SETUSER', 'clairon', 'on', '>right', '~clairon:*', '+@all', '-@dangerous', '+info',
    '+config|get');
$relay->stop;
$relay->configure('store.url' => 'redis://clairon:wrong@127.0.0.1:' . $proxy->port);
$mark = $relay->log_mark;
$relay->start;
my $log = $relay->wait_for_log(qr/WRONGPASS.*user or password in \[store\] url/, from => $mark);
unlike($log, qr/clairon:wrong|right/, 'a wrong password is logged without the password');
$relay->stop;
$relay->configure('store.url' => 'redis://clairon:right@127.0.0.1:' . $proxy->port);
$relay->start;
$relay->wait_ready;
$client = $relay->client('u1', pos => $client->pos);
my $last = insert();
$client->wait_row($last);
unlike($relay->log_text($mark), qr/NOPERM/, 'a user with minimal permissions is sufficient');

# Before a password is set, older servers return a different error for the default user.
$store->execute('CONFIG', 'SET', 'requirepass', 'secret');
$store->execute('AUTH', 'secret');
$relay->stop;
$relay->configure('store.url' => 'redis://:wrong@127.0.0.1:' . $proxy->port);
$mark = $relay->log_mark;
$relay->start;
$relay->wait_for_log(qr/user or password in \[store\] url/, from => $mark);
pass('a wrong password of the default user is logged');

open my $file, '<', $pg->logfile or die $!;
is(scalar(grep { /replication timeout/ } <$file>), 0, 'the connection survives wal_sender_timeout');

done_testing();
