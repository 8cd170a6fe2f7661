# Tests that a client that resumes from any cursor receives the ends of the transactions that it lacks, each
# behind the last notification of its transaction, and no notification less: with random priorities and audiences, a small
# window, and one and 16 shards.
use strict;
use warnings;

use Clairon::Test qw(amount);
use Clairon::Test::Client;
use JSON ();
use Test::More;

use constant { WINDOW => 3, ROUNDS => amount(12, 200) };

my $pg = Clairon::Test::postgresql('main');
my %rules = (
    plain    => q{'USER', 'owner'},
    acked    => q{'USER', 'owner', ack_required => true},
    high     => q{'USER', 'owner', priority => 'HIGH'},
    urgent   => q{'USER', 'owner', priority => 'HIGH', ack_required => true},
    low      => q{'USER', 'owner', priority => 'LOW'},
    grouped  => q{'GROUP', '=g1', ack_required => true},
    everyone => q{'ALL'});
$pg->safe_psql('postgres', "INSERT INTO clairon.member VALUES ('GROUP', 'g1', 'u1');"
      . join '', map { "CREATE TABLE $_ (id bigint PRIMARY KEY, owner text); SELECT clairon.watch('$_', $rules{$_});" } sort keys %rules);
my $id = 0;
my $seed = $ENV{CLAIRON_ENDS_SEED} // int rand 1_000_000;
srand $seed;
note "CLAIRON_ENDS_SEED=$seed";

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Commits random transactions. Returns the ids of the rows that u1 receives.
sub transactions
{
    my ($count) = @_;
    my (@statements, @ids);
    for (1 .. $count)
    {
        push @statements, 'BEGIN';
        for (0 .. rand 9)
        {
            my $table = (sort keys %rules)[ rand keys %rules ];
            my $user  = rand() < 0.6 ? 'u1' : 'u2';
            push @statements, "INSERT INTO $table VALUES (" . ++$id . ", '$user')";
            push @ids, $id if $user eq 'u1' || $table =~ /grouped|everyone/;
        }
        push @statements, 'COMMIT';
    }
    sql(join '; ', @statements);
    return @ids;
}

sub lines { my ($client) = @_; return grep { $_->{t} =~ /^(msg|end|gap)$/ } @{ $client->{messages} } }
sub row { my ($line) = @_; return $line->{n}{payload}{after}{id} }

# What is wrong with the lines of a connection that resumed from a line of transaction `$from`, or is undef.
sub faults
{
    my ($from, @lines) = @_;
    my (%last, %ends, %delivered, @faults);
    for my $i (0 .. $#lines)
    {
        my $line = $lines[$i];
        if    ($line->{t} eq 'gap') { push @faults, "a gap: $line->{why}" }
        elsif ($line->{t} eq 'end') { push @{ $ends{ $line->{x} } }, $i }
        else                        { $last{ $line->{x} } = $i unless $delivered{ $line->{n}{metadata}{id} }++ }
    }
    $last{ $from->{x} } //= -1 if $from && $from->{t} eq 'msg';
    for my $x (sort keys %last)
    {
        my @at = @{ $ends{$x} // [] };
        push @faults, !@at ? "no end of $x" : @at > 1 ? "ends of $x at @at" : "end of $x before its last notification" if @at != 1 || $at[0] < $last{$x};
    }
    return join ', ', @faults;
}

for my $shards (1, 16)
{
    my $store = Clairon::Test::store();
    my $relay = Clairon::Test::relay($pg, $store, conf => { 'store.shards' => $shards, 'feed.slot' => "slot_$shards" });
    for my $round (1 .. ROUNDS)
    {
        my $at     = "round $round, shards: $shards";
        my $client = $relay->client('u1', ends => JSON::true, win => WINDOW);
        my @rows   = transactions(12);
        my $wanted = rand 2 * @rows;
        eval { $client->run_until('a part', sub { $client->ack_received if rand() < 0.3; lines($client) >= $wanted }, 0.2 + rand 0.3) };
        $client->close;
        my @before = lines($client);
        my @with   = grep { $_->{pos} } @before;
        my $from   = @with && rand() < 0.9 ? $with[ rand @with ] : undef;
        my $resumed = $relay->client('u1', ends => JSON::true, win => WINDOW, $from ? (pos => $from->{pos}) : ());
        my $is_whole = sub {
            $resumed->ack_received;
            my %got = map { row($_) => 1 } grep { $_->{t} eq 'msg' } lines($resumed), $from ? @before : ();
            my @expected = $from ? @rows : grep { my $row = $_; grep { $_->{t} eq 'msg' && row($_) == $row } lines($resumed) } @rows;
            return !grep({ !$got{$_} } @expected) && faults($from, lines($resumed)) eq '';
        };
        my $is_right = 1;
        for (1 .. 2)
        {
            sql('INSERT INTO everyone VALUES (' . ++$id . ')');
            my $last = $resumed->wait_row($id);
            $resumed->wait_for(sub { $_[0]{t} eq 'end' && $_[0]{x} eq $last->{x} });
            $is_right &&= eval { $resumed->run_until('all notifications and ends', $is_whole, 20); 1 };
        }
        is(faults($from, lines($resumed)), '', "each transaction has one end: $at") && ok($is_right, "nothing is missing: $at")
          or diag('from ' . JSON::encode_json($from // {}) . "\n" . join "\n", map { "$_->{t} $_->{x} $_->{pos}" } lines($resumed));
        $resumed->ack_received;
        $resumed->close;
    }
    $relay->stop;
    sql("SELECT pg_drop_replication_slot('slot_$shards')");
}

# A new client whose backlog does not fit into its window: the end of a transaction waits for its rest, and for nothing else.
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
sub delivered { my ($client) = @_; return join ' ', map { $_->{t} eq 'msg' ? row($_) : $_->{t} } lines($client) }
my $first = ++$id * 1000;
sql("INSERT INTO acked SELECT g, 'u5' FROM generate_series($first, $first + 2) g; ");
sql("INSERT INTO acked SELECT g, 'u5' FROM generate_series($first + 10, $first + 14) g");
my $probe = $relay->client('u9');
sql("INSERT INTO everyone VALUES ($first)");
$probe->wait_row($first);
my $client = $relay->client('u5', ends => JSON::true, win => WINDOW);
sql('INSERT INTO everyone VALUES (' . ($first + 1) . ')');
$client->run_until('two ends', sub { 2 <= grep { $_->{t} eq 'end' } lines($client) });
my @expected = ($first .. $first + 2, 'end', $first + 1, 'end');
is(delivered($client), "@expected", 'ends of transactions that are whole do not wait for one that is held back');
$client->run_until('three ends', sub { $client->ack_received; 3 <= grep { $_->{t} eq 'end' } lines($client) });
is(delivered($client), join(' ', @expected, $first + 10 .. $first + 14, 'end'), 'the end of a transaction that is held back follows its rest');

# It resumes with an earlier notification that is still pending.
sql("INSERT INTO acked VALUES ($first + 20, 'u6')");
sql("INSERT INTO acked SELECT g, 'u6' FROM generate_series($first + 30, $first + 34) g");
sql("INSERT INTO everyone VALUES ($first + 2)");
$probe->wait_row($first + 2);
my $interrupted = $relay->client('u6', ends => JSON::true, win => WINDOW);
my $line = $interrupted->wait_row($first + 31);
$interrupted->close;
my $resumed = $relay->client('u6', ends => JSON::true, win => WINDOW, pos => $line->{pos});
$resumed->run_until('two ends', sub { $resumed->ack_received; 2 <= grep { $_->{t} eq 'end' } lines($resumed) });
is(delivered($resumed), join(' ', $first + 20, 'end', $first + 30 .. $first + 34, 'end'), 'a client that resumes in a backlog receives each end once');

# A poll returns the notification of a transaction whose end is not known yet.
my $agent = HTTP::Tiny->new(timeout => 60);
my %header = (Authorization => 'Bearer ' . Clairon::Test::token(sub => 'u7'));
my $pos = '';
for my $round (1 .. 10)
{
    my $row   = ++$id;
    my $other = ++$id;
    sql("BEGIN; INSERT INTO plain VALUES ($row, 'u7'); INSERT INTO plain VALUES ($other, 'u8'); COMMIT") if $pos;
    my $x;
    for (1 .. 20)
    {
        my $reply = $agent->get($relay->url("/v1/poll?ends=1&wait=" . ($pos ? 10 : 0) . "&pos=$pos"), { headers => \%header });
        $pos = $reply->{headers}{'clairon-pos'};
        my @lines = map { JSON::decode_json($_) } split /\n/, $reply->{content} // '';
        $x = $_->{x} for grep { $_->{t} eq 'msg' } @lines;
        last if !$x || grep { $_->{t} eq 'end' && $_->{x} eq $x } @lines;
        $x = 'none' if $_ == 20;
    }
    isnt($x // '', 'none', "round $round: a later poll returns the end");
}
done_testing();
