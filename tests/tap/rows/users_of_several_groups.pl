# Tests that live lists keep rows that a user loses through one group but still has through another group, with one
# shard and with four shards.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use JSON ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE tasks (id int PRIMARY KEY, g text[], v int);
    CREATE TABLE pairs (id int PRIMARY KEY, s text, g text[], v int);
    CREATE TABLE keyed (id int, g text[], v int, large text, PRIMARY KEY (id, g));
    ALTER TABLE keyed ALTER large SET STORAGE EXTERNAL;
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    ALTER TABLE pairs REPLICA IDENTITY FULL;
    SELECT clairon.watch('tasks', 'STRUCTURE', 'g', live => true);
    SELECT clairon.watch('tasks', 'STRUCTURE', 'g', name => 'columns', columns => '{id,v}', live => true);
    SELECT clairon.watch('tasks', 'STRUCTURE', 'g', name => 'acks', ack_required => true, live => true);
    SELECT clairon.watch('pairs', 'ROLE+STRUCTURE', 's+g', live => true);
    SELECT clairon.watch('pairs', 'ROLE+STRUCTURE', 's+g', name => 'columns', columns => '{id,v}', live => true);
    SELECT clairon.watch('keyed', 'STRUCTURE', 'g', live => true);
    INSERT INTO clairon.member VALUES ('STRUCTURE', 'g1', 'u1'), ('STRUCTURE', 'g2', 'u1'), ('ROLE', 'r', 'u1'), ('STRUCTURE', 'g2', 'u2')});

my @LISTS = map { [ split m{/} ] } qw(tasks/default tasks/columns tasks/acks pairs/default pairs/columns keyed/default);

my $script = join '', map { <<"END" } @LISTS;
client.live('$_->[0]', { rule: '$_->[1]' }).subscribe((rows) => {
  emit({ name: '$_->[0]/$_->[1]', text: rows.map(({ large, ...row }) => JSON.stringify({ ...row, size: large?.length }, ['g', 'id', 's', 'size', 'v'])).sort().join() });
});
END

sub execute { my ($sql) = @_; return $pg->safe_psql('postgres', $sql) }

# Returns the rows of the table that are addressed to u1, formatted as the page prints them.
sub table
{
    my ($source, $rule) = @_;
    my @rows = map { JSON::decode_json($_) } split /\n/, execute("SELECT row FROM clairon.rows('$source', 'u1', '$rule') AS row");
    exists $_->{large} and $_->{size} = length delete $_->{large} for @rows;
    return join ',', sort map { JSON->new->canonical->encode($_) } @rows;
}

sub displayed
{
    my ($page, $name) = @_;
    my ($last) = reverse grep { ($_->{name} // '') eq $name } $page->events;
    return $last ? $last->{text} : 'nothing';
}

# Checks that all lists equal their tables at some time after the marker.
sub lists_equal_tables
{
    my ($page, $what) = @_;
    for my $list (@LISTS)
    {
        my ($name, $expected) = ("@$list[0]/@$list[1]", table(@$list));
        my $ok = eval { wait_until("$name equals its table", sub { displayed($page, $name) eq $expected }); 1 };
        ok($ok, "$what: $name equals its table") or diag('displayed: ' . displayed($page, $name) . "\ntable: $expected");
    }
    return;
}

# Writes the same values to all tables; `v` is the number of the step. Returns after the client has received all
# changes.
my $step = 0;

sub write_groups
{
    my ($relay, $watcher, $groups, $set) = @_;
    $step++;
    execute("BEGIN; UPDATE tasks SET g = '$groups' $set; UPDATE pairs SET g = '$groups' $set; UPDATE keyed SET g = '$groups' $set; "
          . "SELECT clairon.notify('USER', '{u1}', '{\"mark\": $step}'); COMMIT");
    $watcher->run_until("marker $step arrives", sub { scalar(() = Clairon::Test::of_mark($watcher, $step)) });
    return;
}

# Returns the operations and targets of a rule's notifications for the last write.
sub operations
{
    my ($watcher, $from, $source, $rule) = @_;
    my @messages = @{ $watcher->{messages} };
    return join ' ', map { $_->{n}{metadata}{operation} . join '|', @{ $_->{n}{routing}{audience}{targets} } }
      grep { $_->{t} eq 'msg' && ($_->{rule} // '') eq $rule && $_->{n}{metadata}{source} eq $source } @messages[ $from .. $#messages ];
}

for my $shards (1, 4)
{
    local $ENV{CLAIRON_TEST_SHARDS} = $shards;
    execute(q{TRUNCATE tasks, pairs, keyed});
    execute(qq{INSERT INTO tasks VALUES (1, '{g1,g2}', 0); INSERT INTO pairs VALUES (1, 'r', '{g1,g2}', 0);
        INSERT INTO keyed VALUES (1, '{g1,g2}', 0, repeat('large', 1000))});
    my $store = Clairon::Test::store();
    my $relay = Clairon::Test::relay($pg, $store, conf => { 'feed.slot' => "slot_$shards" });
    my $watcher = $relay->client('u1');
    my $page = Clairon::Test::page(name => "page_$shards", websocket => 1, url => $relay->url . '/v1/ws', token => token(sub => 'u1'), script => $script);
    lists_equal_tables($page, "$shards shards, loaded");
    for (
        [ '{g1}',       ', v = v + 1', 'a group loses the row' ],
        [ '{g2}',       '',            'the row moves between two groups of the user' ],
        [ '{g1,g2}',    '',            'a group gains the row' ],
        [ '{g2}',       '',            'a group loses the row, without another change' ],
        [ '{g2,other}', '',            'a group without members gains the row' ],
        [ '{g1}',       '',            'two groups lose the row and one group gains it' ],
        [ '{other}',    ', v = v + 1', 'the user loses the row' ],
        [ '{g1,other}', '',            'the user gains the row again' ])
    {
        my ($groups, $set, $what) = @$_;
        write_groups($relay, $watcher, $groups, $set);
        lists_equal_tables($page, "$shards shards, $what");
    }
    write_groups($relay, $watcher, '{g1,g2}', ', v = 7');
    my $from = @{ $watcher->{messages} };
    write_groups($relay, $watcher, '{g1,g3}', '');
    is(operations($watcher, $from, @$_), 'deleteg2 updateg1', "@$_: the delete precedes the update")
      for [ 'tasks', 'default' ], [ 'tasks', 'columns' ], [ 'tasks', 'acks' ];
    is(operations($watcher, $from, 'pairs', 'columns'), 'deleter+g2 updater+g1', 'the delete precedes the update for a composite audience');
    is(operations($watcher, $from, 'keyed', 'default'), 'deleteg2 updateg1', 'the delete precedes the update if the WAL lacks the old large value');
    execute("BEGIN; UPDATE tasks SET g = '{g2}', v = 8; UPDATE tasks SET g = '{g1}', v = 9; UPDATE tasks SET g = '{g1,g2}'; UPDATE tasks SET g = '{g2}'; COMMIT");
    lists_equal_tables($page, "$shards shards, several changes in one transaction");
    is(join(' ', $page->problems), '', "$shards shards: the page reports no gap and no error");
    $_->stop for $page, $relay;
    $pg->drop_slot("slot_$shards");
}

done_testing();
