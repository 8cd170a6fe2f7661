# Tests an append-only file that a crash truncated within a transaction of a script. The store executes the remaining commands at its
# second load. Whatever their number, all pairs end, with their receipts.
use strict;
use warnings;

use Clairon::Test qw(wait_until script_text);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id serial PRIMARY KEY, owners text[]);
    SELECT clairon.watch('t', 'USER', 'owners', ack_required => true, receipts => 'user')});
my $store = Clairon::Test::store(fsync => 'always');
# Too few replicas are connected, so no LSN is confirmed, and PostgreSQL retains all WAL.
my $relay = Clairon::Test::relay($pg, $store, conf => { 'store.min_replicas' => 1, 'delivery.ack_timeout' => '1h' });
my $RETENTION_MS = 3_600_000;

# Returns the transactions of an append-only file: lists of commands.
sub transactions
{
    my ($bytes) = @_;
    my ($open, @found);
    while ($bytes =~ /\G\*(\d+)\r\n/gc)
    {
        my ($from, $count, @arguments) = ($-[0], $1);
        for (1 .. $count)
        {
            $bytes =~ /\G\$(\d+)\r\n/gc or die "no argument\n";
            push @arguments, substr $bytes, pos $bytes, $1;
            pos($bytes) += $1 + 2;
        }
        my $text = substr $bytes, $from, pos($bytes) - $from;
        push @found, [] if !$open;
        push @{ $found[-1] }, $text;
        $open = $arguments[0] =~ /^multi$/i || ($open && $arguments[0] !~ /^exec$/i);
    }
    return @found;
}

sub path { return (glob("$store->{folder}/appendonlydir/*.incr.aof"), glob("$store->{folder}/appendonly.aof"))[0] }

sub write_file
{
    my (@commands) = @_;
    open my $file, '>:raw', path() or die "could not open the file: $!";
    print {$file} @commands;
    close $file or die "could not write the file: $!";
    return;
}

sub trim { my ($keep_ms) = @_; return $store->execute('EVAL', script_text('trim'), 1, 'clairon:stream', 'clairon', $keep_ms, $RETENTION_MS, 1e9) }

sub start
{
    $store->start;
    $relay->start;
    $relay->wait_ready;
    return;
}

# Returns the number of pairs with a receipt. A pair that was dropped in the executed part may end again.
sub receipts { my %had = map { $_->{id} =~ /^(.*:u\d):(?:acked|dropped):1$/ ? ($1 => 1) : () } $store->entries('clairon:receipts'); return scalar keys %had }

# due.lua removes what remains in its sorted sets.
sub pending_keys { return grep { /:(ack:|pending)/ } @{ $store->execute('KEYS', '*') } }

my $pairs = 0;

# `$act` calls a script, whose transaction contains `$mark`.
sub check_transaction
{
    my ($what, $mark, $act) = @_;
    my @clients = map { $relay->client($_) } qw(u1 u2);
    $pg->safe_psql('postgres', q{INSERT INTO t (owners) VALUES ('{u1}'), ('{u1,u2}')});
    $pairs += 3;
    $_->run_until('the notifications arrive', sub { $clients[0]->notifications == 2 && $clients[1]->notifications == 1 }) for @clients;
    wait_until('the deliveries are reported', sub { $store->execute('ZCARD', 'clairon:due') == 3 });
    $act->(@clients);
    $relay->kill9;
    $store->kill9;
    my @all  = transactions(PostgreSQL::Test::Utils::slurp_file(path()));
    my ($nth) = reverse grep { @{ $all[$_] } > 1 && grep { /$mark/ } @{ $all[$_] } } 0 .. $#all;
    my @commands = @{ $all[ $nth // die "$what: no transaction" ] };
    note "$what: ", join ', ', map { /\$\d+\r\n(\w+)\r\n(?:\$\d+\r\n(\S+))?/ ? "$1 $2" : '' } @commands;
    for my $count (1 .. $#commands - 1)
    {
        write_file(map({ @$_ } @all[ 0 .. $nth - 1 ]), @commands[ 0 .. $count ], substr $commands[ $count + 1 ], 0, 9);
        start();
        $store->kill9;
        $store->start;
        $relay->restart;
        trim($RETENTION_MS);
        my @again = map { $relay->client($_) } qw(u1 u2);
        my $have_ended = eval { $again[0]->run_until('all pairs end', sub { $_->ack_received for @again; $store->pending == 0 && receipts() == $pairs && !pending_keys() }); 1 };
        ok($have_ended, "$what: all pairs end after $count commands") or diag($store->pending, ' pending, ', receipts(), " of $pairs receipts ", join ' ', pending_keys());
        is($store->error_count, 0, "$what: the error log is empty after $count commands");
        $relay->kill9;
        $store->kill9;
    }
    write_file(map { @$_ } @all);
    start();
    my @last = map { $relay->client($_) } qw(u1 u2);
    $last[0]->run_until("$what: all pairs end", sub { $_->ack_received for @last; $store->pending == 0 && receipts() == $pairs });
    $_->close for @last;
    return;
}

check_transaction('acknowledgements', qr/ZREM\r\n\$\d+\r\nclairon:pending_list:u1\r/, sub {
    my ($one) = @_;
    $one->ack(map { $_->{metadata}{id} } $one->notifications);
    wait_until('the acknowledgements are stored', sub { $store->pending == 1 }) });
check_transaction('retries', qr/\r\nclairon:retried\r/, sub {
    my ($one, $two) = @_;
    my ($id) = map { $_->{metadata}{id} } $two->notifications;
    $store->make_due($id, qw(u1 u2));
    $two->run_until('the retry arrives', sub { $two->notifications == 2 }) });
check_transaction('a move of old entries', qr/\r\nclairon:retried\r/, sub { trim(0) });
check_transaction('a drop', qr/\r\nclairon:ack_events\r/, sub {
    my ($one) = @_;
    is(($relay->run('drop', map { $_->{metadata}{id} } $one->notifications))[0], 0, 'the notifications are dropped') });

done_testing();
